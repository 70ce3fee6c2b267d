"""Clean and adversarial images side by side (ADML)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.attacks import Budget, Goal
from holdfast.attacks.frozen import Statistics
from holdfast.regimes.adversaries import adversarial_images, shift
from holdfast.regimes.at import AdversarialTraining
from holdfast.regimes.base import Adversarial, Batch, StepContext, StepResult, register, require_not_negative

BUDGET = Budget(eps=0.0314, step=0.007, steps=7)
"""Of the ADML paper, for CUB and CARS."""

GOAL: Any = {"name": "alignment", "reference": "joint"}
"""As a recipe writes it: ADML+A."""


@register("adml")
class AdversarialMetricLearning(AdversarialTraining):
    """Gain robustness with clean images still in the loss, adversarial ones at a weight; η + 2 passes per step.

    L(x) + λ L(x'), x' = x attacked towards the goal in η steps

    The paper's variants are goals: ADML+T `triplet`, ADML+A `alignment`, ADML+U `uniformity`, ADML+A+U
    `alignment-uniformity`. The log has both losses as `clean` and `adversarial` (before λ), and the mean distance
    between clean and adversarial embeddings as `shift`.

    Args:
        goal: of the attack; by default away from the own class, the whole batch jointly. The other variants take
            `reference: joint` too; without it a goal compares with clean embeddings, as the paper's text has it.
        weight: λ; 0.1 for CUB, 0.15 for CARS, 0.005 for SOP and In-shop.
        budget: of the attack, with its η steps; the paper has ε 0.01 and 5 steps of 0.003 for SOP and In-shop.
        statistics: of BatchNorm while observing and crafting: running ones (`eval`), or as in training (`keep`).

    Requirements: what the goal requires of a batch; two or more images per class for the default.
    Relations: λ = 0 has the loss and gradients of `standard`, but running statistics, where BatchNorm layers keep them
        up, still take in the adversarial images; `at` leaves the clean images out; `mdprop` gives each kind of image
        its own BatchNorm set.
    Reference: ADML, Algorithm 1.
    """

    in_words = "learning from clean and adversarial images"

    advice = (
        "lower regime.weight, regime.budget.eps or regime.budget.steps, start from a trained model (init), "
        "or use another loss"
    )

    def __init__(
        self, goal: Goal | str = GOAL, weight: float = 0.1, budget: Budget = BUDGET, statistics: Statistics = "eval"
    ) -> None:
        super().__init__(goal, budget, statistics)
        require_not_negative("regime.weight", weight)
        self.weight = weight

    @property
    def passes(self) -> int:
        """The steps of crafting and both losses."""
        return self.budget.steps + 2

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Observe, attack, learn from both."""
        observed = ctx.observe(batch.images, batch.labels, statistics=self.statistics)
        images = adversarial_images(ctx, batch, observed, self.goal, self.budget, self.statistics)
        clean = ctx.encode(batch.images, batch.labels, numbers=batch.numbers)
        adversarial = ctx.encode(images, batch.labels, numbers=batch.numbers)
        terms = {"clean": ctx.criterion(clean), "adversarial": ctx.criterion(adversarial, stage="loss-adversarial")}
        return StepResult(
            loss=terms["clean"] + self.weight * terms["adversarial"],
            encoded=clean,
            terms=terms,
            logs={"shift": shift(adversarial, clean.z)},
            adversarial=Adversarial.of_batch(adversarial),
            clean=clean,
        )

    def caption(self, line: Mapping[str, float]) -> str:
        """The loss of adversarial images, and how far the attack shifted their embeddings."""
        return f"adversarial {line['adversarial']:.4f}  {super().caption(line)}"
