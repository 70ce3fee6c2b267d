"""Nearest negatives."""

from __future__ import annotations

from torch import Generator, Tensor

from holdfast.mining.base import register
from holdfast.mining.batch import MiningBatch
from holdfast.mining.draw import nearest
from holdfast.mining.triplet import Anchors, TripletMiner


@register("hardest")
class Hardest(TripletMiner):
    """Any positive, and the nearest negative.

    Args:
        anchors: `each` image or the `first` of each consecutive pair.
        variant: `published` takes the anchor's partner as positive.

    Requirements: two or more images per class and two or more classes in a batch.
    Relations: `ephn` also takes the nearest positive, which avoids the collapse hard negatives can cause.
    Reference: Hermans et al., 2017.
    """

    def choose_negatives(self, batch: MiningBatch, positive: Tensor, generator: Generator | None) -> Tensor:
        """The closest image of another class."""
        return nearest(batch.distance, batch.negative)


@register("ephn")
class EasyPositiveHardNegative(Hardest):
    """The nearest positive and the nearest negative; nothing is drawn at random.

    Args:
        anchors: `each` image or the `first` of each consecutive pair.

    Requirements: two or more images per class and two or more classes in a batch.
    Relations: `easy-positive` with `negative: hardest` is the same; the miner of the direct gradients.
    Reference: Xuan et al., WACV 2020.
    """

    def __init__(self, anchors: Anchors = "each") -> None:
        super().__init__(anchors)

    def choose_positives(self, batch: MiningBatch, generator: Generator | None) -> Tensor:
        """The closest image of the class."""
        return nearest(batch.distance, batch.positive)
