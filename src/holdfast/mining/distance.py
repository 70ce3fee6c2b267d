"""Distance-weighted negatives."""

from __future__ import annotations

from torch import Generator, Tensor

from holdfast.mining.base import register
from holdfast.mining.batch import MiningBatch
from holdfast.mining.draw import weighted
from holdfast.mining.triplet import TripletMiner

CUTOFF = 0.5
"""Distances below this count as this: very close negatives have few and noisy gradients."""

TINY = 1e-6
"""Keeps the density's logarithm finite for coinciding and for opposite vectors."""


@register("distance")
class Distance(TripletMiner):
    """Negatives spread evenly over distance, by dividing out how common each distance is on the sphere.

    Probability ∝ 1/q(d), `log q(d) = (D-2) log d + (D-3)/2 log(1 - d²/4)`, distances clamped below at 0.5. Far
    negatives are not cut off.

    Args:
        anchors: `each` image or the `first` of each consecutive pair.
        variant: `published` takes the anchor's partner as positive and has no lower clamp.

    Requirements: unit vectors; two or more images per class and two or more classes in a batch.
    Relations: the usual companion of the `margin` loss.
    Reference: Wu et al., ICCV 2017.
    """

    def choose_negatives(self, batch: MiningBatch, positive: Tensor, generator: Generator | None) -> Tensor:
        """Drawn by inverse density."""
        d = batch.distance.clamp_min(TINY if self.variant == "published" else CUTOFF)
        dim = batch.vectors.shape[1]
        log_density = (dim - 2) * d.log() + (dim - 3) / 2 * (1 - d.square() / 4).clamp_min(TINY).log()
        return weighted(-log_density, batch.negative, generator)
