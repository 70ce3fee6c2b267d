"""The contract of a goal and the registry of the family."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import ClassVar, TypeVar

from torch import Generator, Tensor

from holdfast.attacks.references import References
from holdfast.configurable import Configurable
from holdfast.errors import DataError
from holdfast.registry import Registry

B = TypeVar("B", bound="BoundGoal")


class BoundGoal(ABC):
    """A goal that knows its targets: what an attack minimises.

    Embeddings arrive flat, group by group: with a group of three, rows 0-2 are the first triplet. Groups
    never influence each other.
    """

    group: int | None = 1
    """Images per group; None for the whole batch as one group."""

    floor: float = -math.inf
    """A loss that cannot be improved on; groups that reached it stay where they are."""

    stationary: bool = False
    """Whether the clean image is all but a stationary point, so that the first step needs full precision."""

    per_group: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that hold one entry per group."""

    @abstractmethod
    def loss(self, z: Tensor) -> Tensor:
        """One value per group, to be minimised; row i depends on group i alone."""

    @abstractmethod
    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """What a table reports, one value per group."""

    def images(self) -> int | None:
        """How many images it is bound to; None where it would do for any number."""
        if self.group is None or not self.per_group:
            return None
        return self.group * len(getattr(self, self.per_group[0]))

    def take(self: B, groups: slice | Tensor) -> B:
        """The same goal for some of its groups."""
        part = copy.copy(self)
        for name in self.per_group:
            setattr(part, name, getattr(self, name)[groups])
        return part


class Goal(Configurable, ABC):
    """What an attacker wants, before it knows of whom."""

    group_size: int = 1
    """Images that are attacked together: 2 for pairs, 3 for triplets; 1 also where the whole batch is one group."""

    least_classes: int = 2
    """How many classes the references must have."""

    @abstractmethod
    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Draw targets for some images.

        Args:
            references: the clean embeddings that goals look at.
            rows: which of them the attacked images are, one integer per image.
            generator: source of every random draw; torch's global one when left out.
        """


def split_groups(z: Tensor, group: int) -> Tensor:
    """Flat embeddings as (groups, images per group, dim)."""
    if len(z) % group:
        raise DataError(f"this goal is for groups of {group} images, but {len(z)} came; lay them out group by group")
    return z.view(-1, group, z.shape[-1])


registry: Registry[Goal] = Registry("goal", Goal, "holdfast.attacks.goals")
register = registry.register
