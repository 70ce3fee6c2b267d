"""Consistency of clean and adversarial embeddings (TRADES)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from holdfast.errors import RecipeError
from holdfast.extras.base import CleanTerm, adversarial_of, clean_of, register
from holdfast.regimes import Batch, StepContext, StepResult
from holdfast.regimes.base import require_positive
from holdfast.sphere import distance, precise, similarity


@register("consistency")
class Consistency(CleanTerm):
    """Keep adversarial images where the clean ones are (TRADES); one pass more, none with `adml`, `mdprop` or ICS.

    λ mean_k D(z'_k, z_k), z'_k an adversarial embedding, z_k that of the clean image it was made from
    squared: D = ||z' - z||²; distance: D = ||z' - z||
    rows: D = KL(p, q) T², p = softmax_j(z_k·z_j / T), q = softmax_j(z'_k·z_j / T), over the clean batch j

    Gradients flow through both. `distance` pulls as hard where both have met: with `at-pocket` and λ = 1 it collapsed
    the embedding. Where the regime embeds the clean batch (`hm` with ICS or `separate`, `adml`, `mdprop`)
    that pass serves here too.

    Args:
        weight: λ.
        measure: D.
        temperature: T of `rows`; 0.1 when left out.

    Requirements: a regime that attacks.
    Relations: `clean` adds the loss of clean images; ICS of `hm` is a hinge of this distance for anchors; `teacher`
        compares with another model.
    Reference: beyond the papers; TRADES: Zhang et al., ICML 2019.
    """

    name = "consistency"
    in_words = "keeping adversarial embeddings near the clean ones"

    def __init__(
        self,
        weight: float = 1.0,
        measure: Literal["squared", "distance", "rows"] = "squared",
        temperature: float | None = None,
    ) -> None:
        super().__init__(weight)
        if temperature is not None:
            require_positive("extras: temperature", temperature)
            if measure != "rows":
                raise RecipeError(f"extras: temperature belongs to measure: rows; leave it out of measure: {measure}")
        self.measure = measure
        self.temperature = temperature

    def term(self, ctx: StepContext, batch: Batch, result: StepResult) -> Tensor:
        """The mean over all adversarial images."""
        moved, rows = adversarial_of(result)
        before = clean_of(result).z
        if self.measure == "rows":
            t = self.temperature or 0.1
            wanted, found = (F.log_softmax(similarity(z, before) / t, dim=1) for z in (before[rows], precise(moved.z)))
            return F.kl_div(found, wanted, reduction="batchmean", log_target=True) * t**2
        apart = distance(moved.z, before[rows])
        return apart.square().mean() if self.measure == "squared" else apart.mean()
