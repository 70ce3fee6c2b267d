"""AdvProp for embeddings: one kind of adversary, one extra BatchNorm set."""

from __future__ import annotations

from holdfast.attacks import Budget, SingleTarget
from holdfast.attacks.frozen import Statistics
from holdfast.regimes.base import ONE_STEP, register
from holdfast.regimes.mdprop import Distribution, MDProp, Variant


@register("advprop-d")
class AdvPropD(MDProp):
    """Learn from clean images and, through their own BatchNorm set, single-target adversaries; η + 2 passes per step.

    L(x) + L(x'), x' = x attacked towards an image of another class in η steps

    Args:
        budget: of the attack, with its η steps.
        noise: deviation of normal noise on the weights and biases the extra set starts with.
        variant: of the paper, or of its released code; `mdprop` says how they differ.
        statistics: of BatchNorm while observing and crafting: running ones (`eval`), or as in training (`keep`).

    Requirements: BatchNorm layers; two classes in a batch.
    Relations: `mdprop` with the one distribution `stax`; `at` learns from the adversaries alone.
    Reference: MDProp, Section 3.1.4; AdvProp: Xie et al., 2020.
    """

    advice = "lower regime.budget.eps or regime.budget.steps, start from a trained model (init), or use another loss"

    def __init__(
        self, budget: Budget = ONE_STEP, noise: float = 0.0, variant: Variant = "paper", statistics: Statistics = "eval"
    ) -> None:
        stax = Distribution(name="stax", goal=SingleTarget(), budget=budget, noise=noise)
        super().__init__([stax], variant, statistics=statistics)
        self.budget, self.noise = budget, noise
