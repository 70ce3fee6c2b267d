"""The frame of miners that return one triplet per anchor, and its simplest rules: random and nearest negatives."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, TypeAlias

import torch
from torch import Generator, Tensor

from holdfast.errors import DataError
from holdfast.mining.base import Miner, register
from holdfast.mining.batch import MiningBatch
from holdfast.mining.draw import nearest, uniform
from holdfast.mining.tuples import Recalled, Triplets, Tuples

Anchors: TypeAlias = Literal["each", "first"]
Variant: TypeAlias = Literal["default", "published"]


class TripletMiner(Miner):
    """One triplet per anchor: choose a positive, then a negative relative to it.

    Anchors without a positive or a negative are dropped. A subclass says how a negative is chosen and, unless it is
    drawn uniformly, how a positive is.

    Args:
        anchors: `each` image, or only the `first` of each consecutive same-class pair (the published batches of
            hardness manipulation).
        variant: `published` takes the anchor's partner in its consecutive pair as positive.
    """

    def __init__(self, anchors: Anchors = "each", variant: Variant = "default") -> None:
        self.anchors = anchors
        self.variant = variant

    def __call__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        generator: Generator | None = None,
        images: Tensor | None = None,
        recalled: Recalled | None = None,
    ) -> Tuples:
        """Mine a batch; the published variant does not tell copies of an image apart."""
        known = None if self.variant == "published" else images
        return self.mine(MiningBatch(embeddings, labels, known, recalled), generator)

    def mine(self, batch: MiningBatch, generator: Generator | None = None) -> Triplets:
        """Mine a batch whose pairs are known; several miners may share one."""
        positive = self.choose_positives(batch, generator)
        negative = self.choose_negatives(batch, positive, generator)
        anchor = self.anchor_rows(batch)
        return Triplets(anchor, positive[anchor], negative[anchor])

    def choose_positives(self, batch: MiningBatch, generator: Generator | None) -> Tensor:
        """A positive for every row."""
        return batch.partner if self.variant == "published" else uniform(batch.positive, generator)

    @abstractmethod
    def choose_negatives(self, batch: MiningBatch, positive: Tensor, generator: Generator | None) -> Tensor:
        """A negative for every row, given the row's positive."""

    def anchor_rows(self, batch: MiningBatch) -> Tensor:
        """The rows that are anchors; a GPU is asked which only where the host does not know that none is left out."""
        if batch.known_complete and (batch.known_paired or not self.needs_pairs):
            every = 2 if self.anchors == "first" else 1
            return torch.arange(0, len(batch.vectors), every, device=batch.vectors.device)
        anchor = self.eligible(batch).nonzero().squeeze(1)
        if len(anchor) == 0:
            self.explain_empty(batch)
        return anchor

    def eligible(self, batch: MiningBatch) -> Tensor:
        """Which rows are anchors."""
        rows = batch.complete
        if self.anchors == "first":
            rows = rows & (torch.arange(len(rows), device=rows.device) % 2 == 0)
        return rows & batch.paired if self.needs_pairs else rows

    @property
    def needs_pairs(self) -> bool:
        """Whether the batch must consist of consecutive same-class pairs."""
        return self.anchors == "first" or self.variant == "published"

    def explain_empty(self, batch: MiningBatch) -> None:
        """No anchor is left: an error where the batch is to blame, nothing where it just has no positive pair."""
        batch.require_classes()
        if self.needs_pairs and bool(batch.positive.any()):
            raise DataError("no two consecutive images share a class; anchors: first and variant: published need pairs")


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
