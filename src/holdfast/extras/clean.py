"""The loss of clean images beside that of adversarial ones."""

from __future__ import annotations

import dataclasses

from torch import Tensor

from holdfast.errors import RecipeError
from holdfast.extras.base import CleanTerm, Inner, clean_of, register
from holdfast.models.bank import SetStart
from holdfast.regimes import Batch, Regime, StepContext, StepResult

ADVERSARIAL = "adversarial"
"""The BatchNorm set of adversarial images, where they have one."""


@register("clean")
class Clean(CleanTerm):
    """Learn from the clean batch too, with the recipe's loss; one pass more, none where the regime embeds it.

    L' + λ L(x), L' the regime's loss

    With `separate` all that the regime crafts and learns goes through a BatchNorm set of its own, `adversarial`, and
    the clean batch through the model's. Extras that come before this one learn through that set too.

    Args:
        weight: λ.
        separate: give the regime's passes a BatchNorm set of their own.

    Requirements: a regime that attacks; with `separate`, BatchNorm layers and a regime without sets.
    Relations: `at` with it is `adml` with the weight on the other loss, with `separate` `advprop-d`; `hm` has a
        `separate` of its own.
    Reference: beyond the papers; AdvProp: Xie et al., CVPR 2020.
    """

    name = "clean"
    in_words = "with clean images in the loss"

    def __init__(self, weight: float = 1.0, separate: bool = False) -> None:
        super().__init__(weight)
        self.separate = separate

    def check(self, regime: Regime) -> None:
        """Refuse a regime that has BatchNorm sets already."""
        super().check(regime)
        if self.separate and regime.sets():
            raise RecipeError("extras: this regime has BatchNorm sets of its own; leave separate of clean at false")

    def sets(self) -> tuple[SetStart, ...]:
        """One for the adversarial images, where they are kept apart."""
        return (SetStart(ADVERSARIAL),) if self.separate else ()

    def step(self, ctx: StepContext, batch: Batch, inner: Inner) -> StepResult:
        """With the clean loss; collapse is then watched in clean embeddings."""
        if self.separate:
            inner = _through(ctx, inner)
        result = super().step(ctx, batch, inner)
        return dataclasses.replace(result, encoded=clean_of(result))

    def term(self, ctx: StepContext, batch: Batch, result: StepResult) -> Tensor:
        """The recipe's loss and its miner."""
        return ctx.criterion(clean_of(result), stage="loss-clean")


def _through(ctx: StepContext, inner: Inner) -> Inner:
    """A step whose passes go through the adversarial set, so that its clean embeddings are not the model's."""

    def step(batch: Batch) -> StepResult:
        with ctx.through(ADVERSARIAL):
            return dataclasses.replace(inner(batch), clean=None)

    return step
