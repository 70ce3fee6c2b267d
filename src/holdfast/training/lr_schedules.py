"""Learning-rate schedules: pure functions of how far training is, so there is nothing to save."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod

from holdfast.registry import Registry


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule(ABC):
    """A factor on the learning rate.

    Args:
        warmup: fraction of training (0-1) over which the rate first rises linearly from zero.
    """

    warmup: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < 1:
            raise ValueError(f"warmup is a fraction of training in [0, 1), got {self.warmup}")

    def factor(self, step: int, total: int) -> float:
        """The factor at a step out of `total`; steps count from 0."""
        progress = (step + 1) / max(1, total)
        if progress < self.warmup:
            return progress / self.warmup
        return self.after_warmup((progress - self.warmup) / (1 - self.warmup))

    @abstractmethod
    def after_warmup(self, progress: float) -> float:
        """The factor at a fraction (0-1) of the training that follows the warm-up."""


registry: Registry[Schedule] = Registry("schedule", Schedule, "holdfast.training.lr_schedules")
register = registry.register


@register("constant")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Constant(Schedule):
    """The same rate throughout."""

    def after_warmup(self, progress: float) -> float:
        """One."""
        return 1.0


@register("step")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Step(Schedule):
    """Multiply by `gamma` at each fraction of training in `at` (0.6: after 60 %)."""

    at: list[float] = dataclasses.field(default_factory=lambda: [0.6])
    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        for fraction in self.at:
            if not 0 < fraction < 1:
                meant = f"; did you mean {fraction / 100:g}?" if 1 < fraction < 100 else ""
                raise ValueError(f"at has fractions of training between 0 and 1, got {fraction:g}{meant}")
        if not 0 <= self.gamma < math.inf:
            raise ValueError(f"gamma is a factor of 0 or more, got {self.gamma}")

    def after_warmup(self, progress: float) -> float:
        """`gamma` to the number of milestones passed."""
        return float(self.gamma ** sum(progress > fraction for fraction in self.at))


@register("cosine")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Cosine(Schedule):
    """Half a cosine from one down to `floor`."""

    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.floor <= 1:
            raise ValueError(f"floor is a factor in [0, 1], got {self.floor}")

    def after_warmup(self, progress: float) -> float:
        """The cosine between one and the floor."""
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
