"""Adversarial training on adversarial images alone (AT)."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.attacks import Budget, Goal
from holdfast.attacks.frozen import Statistics
from holdfast.regimes.adversaries import adversarial_images, image_goal, shift
from holdfast.regimes.base import ONE_STEP, Adversarial, Batch, Regime, StepContext, StepResult, register


@register("at")
class AdversarialTraining(Regime):
    """Learn from adversarial images in place of the clean ones; the plain defence; η + 1 passes per step.

    L(x'), x' = x attacked towards the goal in η steps

    The goal's references and targets are the clean batch, observed once. The log's `shift` is the mean distance between
    the embeddings that learn and the observed ones; where training and `statistics` normalise differently, that
    difference is part of it.

    Args:
        goal: of the attack; any goal for single images, or for the batch as a whole.
        budget: of the attack, with its η steps.
        statistics: of BatchNorm while observing and crafting: running ones (`eval`), or as in training (`keep`).

    Requirements: what the goal requires of a batch; two classes for the default.
    Relations: `est` with the goal `shift`; `adml` learns from the clean images too; `advprop-d` through a BatchNorm set
        of their own.
    Reference: MDProp, Section 4, where it is the baseline with shared BatchNorm.
    """

    in_words = "learning from adversarial images"

    advice = (
        "lower regime.budget.eps or regime.budget.steps, start from a trained model (init), "
        "or keep clean images in the loss (regime: adml)"
    )

    def __init__(
        self, goal: Goal | str = "single-target", budget: Budget = ONE_STEP, statistics: Statistics = "eval"
    ) -> None:
        self.goal = image_goal(goal)
        self.least_classes = self.goal.least_classes
        self.budget = budget
        self.statistics = statistics

    @property
    def passes(self) -> int:
        """The steps of crafting and the update."""
        return self.budget.steps + 1

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Observe, attack, learn."""
        clean = ctx.observe(batch.images, batch.labels, statistics=self.statistics)
        images = adversarial_images(ctx, batch, clean, self.goal, self.budget, self.statistics)
        encoded = ctx.encode(images, batch.labels, numbers=batch.numbers)
        return StepResult(
            loss=ctx.criterion(encoded),
            encoded=encoded,
            logs={"shift": shift(encoded, clean.z)},
            adversarial=Adversarial.of_batch(encoded),
        )

    def caption(self, line: Mapping[str, float]) -> str:
        """How far the attack shifted embeddings."""
        return f"shift {line['shift']:.3f}"
