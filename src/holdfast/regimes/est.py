"""Embedding-shifted training (EST)."""

from __future__ import annotations

from holdfast.attacks import Budget
from holdfast.attacks.frozen import Statistics
from holdfast.attacks.goals.shift import Shift
from holdfast.regimes.at import AdversarialTraining
from holdfast.regimes.base import register
from holdfast.regimes.budgets import EIGHT_STEPS


@register("est")
class EmbeddingShiftedTraining(AdversarialTraining):
    """A baseline defence for any loss: learn from images driven far from where they were; η + 1 passes per step.

    L(x'), x' = argmax d(f(x'), f(x)); tuples are mined after moving

    Args:
        budget: how far, and in how many steps η.
        statistics: what BatchNorm layers use while observing and crafting: running statistics (`eval`), or what they
            use in training (`keep`).

    Requirements: none of its own; the direction of a shift needs no labels.
    Relations: `at` with the goal `shift`; `act` moves mined positives and negatives, which is stronger.
    Reference: Zhou et al., ECCV 2020; HM, Section 2.
    """

    def __init__(self, budget: Budget = EIGHT_STEPS, statistics: Statistics = "eval") -> None:
        super().__init__(Shift(), budget, statistics)
