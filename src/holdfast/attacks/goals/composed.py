"""Goals made of goals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NoReturn

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.forward import Attacked
from holdfast.attacks.references import References
from holdfast.configurable import built
from holdfast.errors import RecipeError


@dataclasses.dataclass(eq=False)
class BoundGoals(BoundGoal):
    """Several goals for the same groups.

    Args:
        goals: the members by name.
        weights: one each.
        combine: weighted losses of shape (goals, groups) to one per group: `torch.sum` or `torch.amin`.
    """

    goals: Mapping[str, BoundGoal]
    weights: Sequence[float]
    combine: Callable[[Tensor, int], Tensor] = torch.sum

    def __post_init__(self) -> None:
        members = self.goals.values()
        sizes = {goal.group for goal in members}
        if len(sizes) != 1:
            raise RecipeError("goals can only be combined when they attack groups of the same size")
        (self.group,) = sizes
        self.stationary = any(goal.stationary for goal in members)
        floors = [weight * goal.floor for weight, goal in zip(self.weights, members, strict=True)]
        self.floor = min(floors) if self.combine is torch.amin else sum(floors)

    def loss(self, z: Tensor) -> Tensor:
        """The members' losses, combined."""
        return self._combined([goal.loss(z) for goal in self.goals.values()])

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """Every member's measures under `member/measure`; members of a recipe are numbered from 1."""
        return {f"{name}/{key}": value for name, goal in self.goals.items() for key, value in goal.measure(z).items()}

    def images(self) -> int | None:
        """As many as its members, which were bound together."""
        return next((count for goal in self.goals.values() if (count := goal.images()) is not None), None)

    def take(self, groups: slice | Tensor) -> BoundGoals:
        """Every member's part."""
        return dataclasses.replace(self, goals={name: goal.take(groups) for name, goal in self.goals.items()})

    def _combined(self, losses: list[Tensor]) -> Tensor:
        weighted = [weight * loss for weight, loss in zip(self.weights, losses, strict=True)]
        return self.combine(torch.stack(weighted), 0)


@dataclasses.dataclass(eq=False)
class Stacked(BoundGoal):
    """Several goals, each for all of the same images, which come once for each: all for the first, then for the second.

    Every copy is a group of its own, so that steps adapt to each by itself. The lowest floor counts: a copy that is at
    a higher one of its goal has no gradient there, so that plain steps leave it where it is.

    Args:
        goals: as many images each, attacked one by one.
        count: of images.
    """

    goals: Sequence[BoundGoal]
    count: int

    def __post_init__(self) -> None:
        if any(goal.group != 1 for goal in self.goals):
            raise RecipeError("goals can only be stacked when they attack images one by one")
        self.floor = min(goal.floor for goal in self.goals)
        self.stationary = any(goal.stationary for goal in self.goals)

    def loss(self, z: Tensor) -> Tensor:
        """That of each copy's goal."""
        return torch.cat([goal.loss(part) for goal, part in zip(self.goals, self._copies(z), strict=True)])

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """Nothing: `parted` has each goal's."""
        return {}

    def images(self) -> int:
        """All copies."""
        return len(self.goals) * self.count

    def take(self, groups: slice | Tensor) -> NoReturn:
        """Refused: a part would have some goals for some images."""
        raise RecipeError("stacked goals cannot be cut; stack parts of them")

    def parted(self, found: Attacked) -> list[Attacked]:
        """What each goal's attack came to."""
        parts = (self._copies(all_copies) for all_copies in (found.images, found.vectors, found.loss, found.previous))
        return [
            Attacked(images, vectors, loss, goal.measure(vectors), previous)
            for goal, images, vectors, loss, previous in zip(self.goals, *parts, strict=True)
        ]

    def _copies(self, values: Tensor) -> Tensor:
        return values.view(len(self.goals), self.count, *values.shape[1:])


class _Several(Goal):
    """Binds every member to the same images."""

    combine: ClassVar[Callable[[Tensor, int], Tensor]]

    def __init__(self, goals: list[Goal | str], weights: list[float] | None = None) -> None:
        self.goals = [built(Goal, goal) for goal in goals]
        self.weights = [1.0] * len(goals) if weights is None else weights
        if not goals or len(self.weights) != len(goals):
            raise RecipeError(f"give one or more goals and a weight for each, got {len(goals)} and {len(self.weights)}")
        if any(weight <= 0 for weight in self.weights):
            raise RecipeError("the weights of goals must be above 0; leave a goal out instead")
        self.group_size = max(goal.group_size for goal in self.goals)
        self.least_classes = max(goal.least_classes for goal in self.goals)

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Bind every member."""
        bound = [goal.bind(references, rows, generator) for goal in self.goals]
        members = {str(position): goal for position, goal in enumerate(bound, start=1)}
        return BoundGoals(members, self.weights, type(self).combine)


@register("sum")
class Sum(_Several):
    """Pursue several goals at once.

    L = Σ_k w_k L_k

    Args:
        goals: the members; all must attack groups of the same size.
        weights: one positive number each; 1 when left out.

    Relations: `worst-of` is content with one of them.
    """

    combine = torch.sum


@register("worst-of")
class WorstOf(_Several):
    """Pursue, for each group, whichever of several goals is nearest to being reached.

    L = min_k w_k L_k

    Args:
        goals: the members; all must attack groups of the same size.
        weights: one positive number each, to make losses comparable; 1 when left out.

    Relations: `attacks.worst` keeps the worst of attacks that were run separately, by any criterion.
    """

    combine = torch.amin
