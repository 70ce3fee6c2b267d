"""How long an audit takes: passes counted beforehand, timed by a short probe, and shown while they run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast import console
from holdfast.attacks.forward import Precision, counting
from holdfast.errors import RecipeError

PROBE_SECONDS = 1.0
"""So long passes of either kind are timed, after one of each that is not."""
KEPT_BACK = 0.05
"""Fraction of the minutes that is kept for what no pass is counted of: starting Python, reading images, figures."""
FEW = 10
"""Attacked images under which intervals are so wide that a first look at more of them says more."""


@dataclasses.dataclass(frozen=True)
class Passes:
    """How often images go through a model.

    Args:
        forward: images that go forward alone.
        back: images that go forward, and a gradient back to their pixels.
    """

    forward: int = 0
    back: int = 0

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.forward + other.forward, self.back + other.back)

    def __mul__(self, times: int) -> Passes:
        return Passes(self.forward * times, self.back * times)


@dataclasses.dataclass(frozen=True)
class Speed:
    """Seconds that a pass takes per image, forward alone and with the gradient."""

    forward: float
    back: float

    @classmethod
    def measure(
        cls, model: Callable[[Tensor], Tensor], images: Tensor, precision: Precision, differentiable: bool
    ) -> Speed:
        """Time passes of some images, as attacks make them.

        Args:
            model: frozen.
            images: on the model's device.
            precision: of crafting.
            differentiable: whether the model gives gradients.
        """

        def forward() -> float:
            with torch.no_grad():
                return float(model(images).float().sum())  # reading a number waits for the device

        def back() -> float:
            pixels = images.detach().clone().requires_grad_()
            with torch.enable_grad(), torch.autocast(images.device.type, torch.bfloat16, precision == "bfloat16"):
                vectors = model(pixels)
            if not vectors.requires_grad:  # which the checks behind flags will tell
                return 0.0
            (slope,) = torch.autograd.grad(F.normalize(vectors.float(), dim=1)[:, 0].sum(), pixels, allow_unused=True)
            return 0.0 if slope is None else float(slope.sum())

        alone = _seconds(forward) / len(images)
        return cls(alone, max(alone, _seconds(back) / len(images)) if differentiable else alone)

    def seconds(self, passes: Passes) -> float:
        """What some passes take."""
        return self.forward * passes.forward + self.back * passes.back


def _seconds(work: Callable[[], float]) -> float:
    """What something takes, the mean of some runs."""
    work()  # the first also fetches memory and chooses kernels
    runs, begun = 0, time.monotonic()
    while not runs or time.monotonic() - begun < PROBE_SECONDS:
        work()
        runs += 1
    return (time.monotonic() - begun) / runs


class Progress:
    """A bar that counts passes, so that it moves inside attacks, and names what is running.

    A pass forward and back counts as many times as one forward as it takes longer.

    Args:
        total: all passes there will be, at most.
        speed: of the model; without it both kinds count once.
    """

    def __init__(self, total: Passes, speed: Speed | None = None) -> None:
        self._weight = max(1, round(speed.back / max(speed.forward, 1e-9))) if speed else 1
        self._total = self._units(total)
        self._done = self._due = 0
        self._bar = console.bar(self._total, unit="pass")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    @contextmanager
    def doing(self, what: str, passes: Passes) -> Iterator[None]:
        """Count the attacks of a block, and end where they were to end also if they took fewer passes.

        Args:
            what: is running.
            passes: it takes; a block that takes more is made up for by those that take less.
        """
        self._bar.set_description(what)
        with counting(lambda images, back: self._move(self._done + self._units(_one(images, back)))):
            yield
        self.skip(passes)

    def skip(self, passes: Passes) -> None:
        """Move past what was done before, or is not needed."""
        self._due += self._units(passes)
        self._move(max(self._due, self._done))

    def _move(self, to: int) -> None:
        to = min(to, self._total)
        self._bar.update(to - self._done)
        self._done = to

    def _units(self, passes: Passes) -> int:
        return passes.forward + self._weight * passes.back


def _one(images: int, back: bool) -> Passes:
    return Passes(back=images) if back else Passes(forward=images)


@dataclasses.dataclass(frozen=True)
class TimeLimit:
    """Minutes that a whole audit may take.

    Args:
        minutes: as asked.
        began: when it did, by the monotonic clock.
    """

    minutes: float
    began: float = dataclasses.field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if not 0 < self.minutes < float("inf"):
            raise RecipeError(f"minutes must be above zero, got {self.minutes}")

    @property
    def left(self) -> float:
        """Seconds for passes."""
        return 60 * self.minutes * (1 - KEPT_BACK) - (time.monotonic() - self.began)

    def refuse_embedding(self, images: int, seconds: float) -> None:
        """Refuse where the clean images alone take longer, before they are embedded."""
        if seconds > self.left:
            wanted = f"embedding the {images:,} clean images takes about {duration(seconds)}"
            raise RecipeError(f"{self.minutes:g} min is too short: {wanted}; give more --minutes, or fewer images")

    def choose(self, most: int, seconds: Callable[[int], float]) -> int:
        """How many images can be attacked in the time that is left; refused where not even one can.

        Args:
            most: how many there are.
            seconds: what attacks and checks on so many take.
        """
        few, many, left = 0, most, self.left
        while few < many:
            middle = (few + many + 1) // 2
            few, many = (middle, many) if seconds(middle) <= left else (few, middle - 1)
        if not few:
            needed = 60 * self.minutes + seconds(min(FEW, most)) - left
            advice = f"give --minutes {needed // 60 + 1:.0f} for {min(FEW, most)} images, or a first look with --quick"
            raise RecipeError(f"{self.minutes:g} min is too short to attack one image; {advice}")
        return few


def duration(seconds: float) -> str:
    """`40 s`, `3 min`, `1.5 h`."""
    if seconds < 89.5:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5370 else f"{seconds / 3600:.1f} h"
