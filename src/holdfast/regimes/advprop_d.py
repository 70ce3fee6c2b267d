"""AdvProp for embeddings: one kind of adversary, one extra BatchNorm set."""

from __future__ import annotations

from holdfast.attacks import Budget
from holdfast.attacks.frozen import Statistics
from holdfast.attacks.goals.targets import SingleTarget
from holdfast.regimes.base import register
from holdfast.regimes.budgets import ONE_STEP
from holdfast.regimes.mdprop import Distribution, MDProp, Variant


@register("advprop-d")
class AdvPropD(MDProp):
    """Learn from clean images and, through their own BatchNorm set, single-target adversaries; η + 2 passes per step.

    L(x) + L(x'), x' = x moved towards an image of another class in η steps

    Args:
        budget: how far, and in how many steps η.
        noise: deviation of normal noise on the weights and biases the extra set starts with.
        variant: of the paper, or of its released code; `mdprop` says how they differ.
        statistics: what BatchNorm layers use while observing and crafting: running statistics (`eval`), or what they
            use in training (`keep`).

    Requirements: BatchNorm layers; two classes in a batch.
    Relations: `mdprop` with the one distribution `stax`; `at` learns from the adversaries alone.
    Reference: MDProp, Section 3.1.4; AdvProp: Xie et al., 2020.
    """

    advice = "lower regime.budget.eps or regime.budget.steps, start from a trained model (init), or use another loss"

    def __init__(
        self,
        budget: Budget = ONE_STEP,
        noise: float = 0.0,
        variant: Variant = "paper",
        statistics: Statistics = "eval",
    ) -> None:
        stax = Distribution(name="stax", goal=SingleTarget(), budget=budget, noise=noise)
        super().__init__([stax], variant, statistics=statistics)
