"""All tuples of the adversarial images, not only the crafted triplets."""

from __future__ import annotations

from holdfast.errors import RecipeError
from holdfast.extras.base import Extra, Inner, register
from holdfast.regimes import AntiCollapseTriplets, Batch, Manipulation, Regime, StepContext, StepResult


@register("all-tuples")
class AllTuples(Extra):
    """Learn from all pairs or triplets of the adversarial images, not only the crafted ones; no more passes.

    L(x') over what the loss's own miner finds among all 3T adversarial images, or over all there is without a miner

    A loss on triplets otherwise learns from exactly the T triplets that `hm` or `act` crafted. Copies of one image,
    which several triplets may have, are no positives of each other where the miner looks at image numbers. On a GPU a
    miner of triplets asks which rows have a positive, so such steps are not captured as CUDA graphs.

    Requirements: `hm`, `free-hm`, `min-max` or `act`; losses that are not on triplets do this anyway.
    Relations: regimes that attack single images (`at`, `est`) mine after the attack anyway.
    Reference: beyond the papers.
    """

    in_words = "on all tuples of the adversarial images"

    def check(self, regime: Regime) -> None:
        """Refuse a regime that crafts no triplets."""
        if not isinstance(regime, (Manipulation, AntiCollapseTriplets)):
            raise RecipeError("extras: all-tuples is for regimes that craft triplets: hm, free-hm, min-max or act")

    def step(self, ctx: StepContext, batch: Batch, inner: Inner) -> StepResult:
        """With labels in place of triplets."""
        with ctx.all_tuples():
            return inner(batch)
