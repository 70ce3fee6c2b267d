"""Attacks that grow over the first part of training."""

from __future__ import annotations

import math

from holdfast.errors import RecipeError
from holdfast.extras.base import Extra, Inner, register
from holdfast.regimes import Batch, FreeHardnessManipulation, Regime, StepContext, StepResult

STAIRS = 10
"""Strengths on the way: compiled kernels are made for each."""


@register("eps-warmup")
class EpsWarmup(Extra):
    """Let ε grow over the first part of training; no more passes.

    ε_t = ε ⌈10 min(1, (t + 1) / (f n))⌉ / 10 at step t of n; steps and random starts keep their proportion to ε

    On a GPU, steps are captured as CUDA graphs once ε has grown.

    Args:
        fraction: f, of training.

    Requirements: a regime whose attacks have a budget, so not `free-hm`.
    Relations: gradual destinations of `hm` grow with the model instead of with time; `schedule.warmup` is of the
        learning rate.
    Reference: beyond the papers; Cai et al., Curriculum adversarial training, 2018.
    """

    in_words = "with attacks that grow"

    def __init__(self, fraction: float = 0.3) -> None:
        if not 0 < fraction <= 1:
            raise RecipeError(f"extras: fraction of eps-warmup is a part of training in (0, 1], got {fraction}")
        self.fraction = fraction

    def check(self, regime: Regime) -> None:
        """Refuse a regime that has no budget."""
        super().check(regime)
        if isinstance(regime, FreeHardnessManipulation):
            raise RecipeError("extras: eps-warmup scales budgets, and free-hm has none; use hm")

    def phase(self, step: int, total: int) -> int | None:
        """None until ε has grown."""
        return None if self.factor(step, total) < 1 else 0

    def factor(self, step: int, total: int) -> float:
        """ε_t / ε."""
        return math.ceil(round(STAIRS * min(1.0, (step + 1) / (self.fraction * max(1, total))), 9)) / STAIRS

    def step(self, ctx: StepContext, batch: Batch, inner: Inner) -> StepResult:
        """With scaled budgets."""
        with ctx.scaled_budgets(self.factor(ctx.step, ctx.total)):
            return inner(batch)
