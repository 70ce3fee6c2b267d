"""Embedding-shifted training (EST)."""

from __future__ import annotations

from typing import Literal

import torch

from holdfast.attacks import Budget, Shift
from holdfast.attacks.frozen import Statistics
from holdfast.regimes.at import AdversarialTraining
from holdfast.regimes.base import EIGHT_STEPS, Batch, StepContext, StepResult, register


@register("est")
class EmbeddingShiftedTraining(AdversarialTraining):
    """A baseline defence for any loss: learn from images driven far from where they were; η + 1 passes per step.

    L(x'), x' = argmax d(f(x'), f(x)); tuples are mined after the attack

    Args:
        budget: of the attack, with its η steps.
        statistics: of BatchNorm while observing and crafting: running ones (`eval`), or as in training (`keep`).
        variant: in the `published` one BatchNorm layers that train also see the clean batch, before anything is
            observed, in a pass of its own.

    Requirements: none of its own; the direction of a shift needs no labels.
    Relations: `at` with the goal `shift`; `act` attacks mined positives and negatives, which is stronger.
    Reference: Zhou et al., ECCV 2020; HM, Section 2.
    """

    in_words = "learning from images whose embedding an attack shifted"

    def __init__(
        self,
        budget: Budget = EIGHT_STEPS,
        statistics: Statistics = "eval",
        variant: Literal["default", "published"] = "default",
    ) -> None:
        super().__init__(Shift(), budget, statistics)
        self.variant = variant

    @property
    def passes(self) -> int:
        """The steps of crafting and the update, and that of the clean batch."""
        return super().passes + (self.variant == "published")

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Observe, attack, learn."""
        if self.variant == "published":
            with torch.no_grad():
                ctx.encode(batch.images, batch.labels)  # for the running statistics alone
        return super().step(ctx, batch)
