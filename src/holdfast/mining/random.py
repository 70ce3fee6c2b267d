"""Uniform triplets."""

from __future__ import annotations

from torch import Generator, Tensor

from holdfast.mining.base import register
from holdfast.mining.batch import MiningBatch
from holdfast.mining.draw import uniform
from holdfast.mining.triplet import TripletMiner


@register("random")
class Random(TripletMiner):
    """Any positive and any negative, uniformly.

    Args:
        anchors: `each` image or the `first` of each consecutive pair.
        variant: `published` takes the anchor's partner as positive.

    Requirements: two or more images per class and two or more classes in a batch.
    Relations: `semihard` and `distance` choose more useful negatives at the same price.
    """

    def choose_negatives(self, batch: MiningBatch, positive: Tensor, generator: Generator | None) -> Tensor:
        """Uniform among other classes."""
        return uniform(batch.negative, generator)
