"""How far an attack may go and how it gets there."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from torch import Tensor

from holdfast.config import resolve
from holdfast.errors import RecipeError

Norm: TypeAlias = Literal["linf", "l2"]
Units: TypeAlias = Literal["pixel", "normalized"]
Method: TypeAlias = Literal["pgd", "momentum", "apgd"]
Start: TypeAlias = Literal["zero", "uniform"]

Std: TypeAlias = float | Sequence[float] | Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """How far an attack may go: the ball around an image, and the steps inside it.

    Recipes write it as a block, `{eps: 8/255, step: 1/255, steps: 8}`. FGSM is one step of size ε, BIM starts at the
    image, PGD at a random point; `fgsm`, `bim` and `pgd` build those.

    Args:
        eps: ε, the largest perturbation.
        step: length of a step; when left out, ε for a single step, 2.5 ε / steps but at most ε for several, and 2 ε
            for `apgd`, which halves its own.
        steps: gradient steps; each costs one pass forward and back.
        norm: ball and steps in the largest pixel change (`linf`) or in euclidean length per image (`l2`).
        start: at the image itself, or drawn uniformly around it.
        start_radius: how far around; ε when left out. Only with the uniform start.
        units: `pixel` for images in [0, 1]; `normalized` means divided by the model's mean pixel deviation, and must
            be converted with `in_pixels` before use.
        method: plain steps and the last iterate (`pgd`), accumulated directions and the last iterate (`momentum`), or
            steps that halve on a plateau and the best iterate (`apgd`).
    """

    eps: float
    step: float | None = None
    steps: int = 10
    norm: Norm = "linf"
    start: Start = "zero"
    start_radius: float | None = None
    units: Units = "pixel"
    method: Method = "pgd"

    def __post_init__(self) -> None:
        for name, words in {"norm": Norm, "start": Start, "units": Units, "method": Method}.items():
            resolve(words, getattr(self, name), f"budget.{name}")
        lengths = {"eps": self.eps, "step": self.step, "start_radius": self.start_radius}
        for name, value in lengths.items():
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise RecipeError(f"budget.{name} must be a number of 0 or more, got {value}")
        if self.eps > 1 and (self.norm, self.units) == ("linf", "pixel"):
            told = f"{self.eps:g}"
            raise RecipeError(f"eps {told} is more than the whole range of a pixel; did you mean {told}/255?")
        if self.steps < 1:
            raise RecipeError(f"budget.steps must be 1 or more, got {self.steps}")
        if self.start_radius is not None and self.start != "uniform":
            raise RecipeError("budget.start_radius needs start: uniform; an attack that starts at zero draws nothing")
        if self.start_radius is not None and self.start_radius > self.eps:
            raise RecipeError(f"budget.start_radius ({self.start_radius}) must not exceed eps ({self.eps})")

    @classmethod
    def fgsm(cls, eps: float) -> Budget:
        """One step of size ε from the image."""
        return cls(eps=eps, step=eps, steps=1)

    @classmethod
    def bim(cls, eps: float, steps: int = 10, step: float | None = None) -> Budget:
        """Several steps from the image."""
        return cls(eps=eps, step=step, steps=steps)

    @classmethod
    def pgd(cls, eps: float, steps: int = 10, step: float | None = None) -> Budget:
        """Several steps from a random point of the ball."""
        return cls(eps=eps, step=step, steps=steps, start="uniform")

    @property
    def step_size(self) -> float:
        """The length of a step, chosen by rule where none was given."""
        if self.step is not None:
            return self.step
        if self.method == "apgd":
            return 2 * self.eps
        return self.eps if self.steps == 1 else min(self.eps, 2.5 * self.eps / self.steps)

    @property
    def start_eps(self) -> float:
        """How far around the image the attack starts."""
        if self.start == "zero":
            return 0.0
        return self.eps if self.start_radius is None else self.start_radius

    def scaled(self, factor: float) -> Budget:
        """The same attack with every length multiplied."""
        step = None if self.step is None else self.step * factor
        start = None if self.start_radius is None else self.start_radius * factor
        return dataclasses.replace(self, eps=self.eps * factor, step=step, start_radius=start)

    def with_eps(self, eps: float) -> Budget:
        """The same attack at another ε; given step and start keep their proportion to it."""
        if self.eps == 0:
            return dataclasses.replace(self, eps=eps)
        same = self.scaled(eps / self.eps)
        start = None if same.start_radius is None else min(same.start_radius, eps)  # rounding may leave it beyond
        return dataclasses.replace(same, eps=eps, start_radius=start)

    def in_pixels(self, std: Std) -> Budget:
        """The same budget in pixel units.

        Args:
            std: pixel deviation by which the model divides, per channel (`embedder.std`); its mean is used.
        """
        if self.units == "pixel":
            return self
        return dataclasses.replace(self.scaled(_mean(std)), units="pixel")

    def eps_in_both(self, std: Std) -> tuple[float, float]:
        """ε in pixel and in normalised units."""
        pixel = self.in_pixels(std).eps
        return pixel, pixel / _mean(std)

    def describe(self, std: Std) -> str:
        """One line for people, with ε in both units where the model is known to normalise."""
        pixel, normalized = self.eps_in_both(std)
        step = self.in_pixels(std).step_size
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        own = f", {normalized:.4g} normalized" if _mean(std) != 1 else ""
        return (
            f"{self.method} {self.norm}, eps {pixel:.4g} in pixels ({pixel * 255:.3g}/255{own})"
            f", {steps} of {step:.4g}, {self.start} start"
        )


def _mean(std: Std) -> float:
    if isinstance(std, Tensor):
        return float(std.mean())
    return float(std) if isinstance(std, (int, float)) else sum(std) / len(std)
