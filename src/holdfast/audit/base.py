"""The contract of an audit protocol and the registry of the family."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.audit.cut import Cut
from holdfast.errors import RecipeError, unknown
from holdfast.metric_info import MetricInfo, percentage
from holdfast.registry import Registry

if TYPE_CHECKING:  # pages read the terms of ERS without torch
    from torch import Tensor

    from holdfast.attacks import Budget
    from holdfast.audit.figures import Figures
    from holdfast.audit.plan import Passes
    from holdfast.audit.subject import Subject


PUBLISHED_BATCH = 112
"""Images in a batch of the papers."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One attack of a protocol, done block by block.

    Args:
        name: under which its measurements are kept.
        attack: measurements of the attacked images at some positions of `subject.rows` (of the cut's order, where it
            has one), one row each.
        cut: where the protocol depends on it; blocks as the subject has them when left out.
        passes: that it takes at most for one image, where they are not the protocol's.
        budget: how far, in pixels, where each image is changed alone and all others stay clean; then robust R@1 counts
            its `hit`. None for other attacks.
        after: an earlier part of the same cut, whose measurements of these images `attack` is given, too.
        exhaustive: it attacks as the whole ensemble behind robust R@1 does, which then has nothing to add in its ball.
    """

    name: str
    attack: Callable[..., dict[str, Tensor]]
    cut: Cut | None = None
    passes: Passes | None = None
    budget: Budget | None = None
    after: str | None = None
    exhaustive: bool = False


CLEAN = percentage("clean queries that find their class first, %", "page")


class Protocol(ABC):
    """A fixed way of attacking a model and of adding up what happened.

    Args:
        mode: one of `modes`; figures of different modes are never comparable.
        eps: in place of the protocol's own, in its units.
    """

    modes: ClassVar[tuple[str, ...]] = ("fixed",)

    through_sets: ClassVar[bool] = False
    """Whether it also measures through the auxiliary BatchNorm sets of a model."""

    adversarial: ClassVar[bool] = True
    """Whether an enemy changes the images; if not, there is neither robust R@1 nor a gradient to mask."""

    units: str | None = None
    """Of eps, where a protocol takes several."""

    def __init__(self, mode: str = "fixed", eps: float | None = None) -> None:
        if mode not in self.modes:
            raise RecipeError(unknown("mode", mode, self.modes))
        if eps is not None and eps <= 0:
            raise RecipeError(f"eps must be above zero, got {eps}")
        self.mode = mode
        self.eps = eps

    def describe(self) -> dict[str, MetricInfo]:
        """What its figures mean and how they are shown, by key; the others are in files and full listings alone."""
        return {}

    @property
    def pixel_eps(self) -> float | None:
        """The eps that was asked for, where it is a largest change of pixels: that of robust R@1, too."""
        return self.eps

    @property
    def settings(self) -> dict[str, Any]:
        """What else was chosen and makes figures incomparable, as plain data."""
        return {}

    @abstractmethod
    def budget(self, subject: Subject) -> Budget:
        """The main attack's budget, in pixel units."""

    def words(self, subject: Subject) -> str:
        """What is done to the images, for people."""
        return self.budget(subject).describe(subject.std)

    @abstractmethod
    def parts(self, subject: Subject) -> list[Part]:
        """The attacks, in the order they run."""

    def passes(self, subject: Subject) -> Passes:
        """What each of the parts takes at most for one image, unless it says so itself."""
        return subject.passes(self.budget(subject))

    @abstractmethod
    def figures(self, subject: Subject, measured: dict[str, dict[str, Tensor]]) -> Figures:
        """What the measurements add up to; R@1 on the same, clean images is always among it."""


registry: Registry[Protocol] = Registry("protocol", Protocol, "holdfast.audit")
register = registry.register
