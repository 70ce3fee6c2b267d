"""Plain training."""

from __future__ import annotations

from holdfast.regimes.base import Batch, Regime, StepContext, StepResult, register


@register("standard")
class Standard(Regime):
    """Learn from clean images; the baseline; 1 pass per step.

    L(x)

    Relations: the baseline of every other regime.
    """

    in_words = "learning from clean images only"

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """The loss of the clean batch."""
        encoded = ctx.encode(batch.images, batch.labels, numbers=batch.numbers)
        return StepResult(loss=ctx.criterion(encoded), encoded=encoded)
