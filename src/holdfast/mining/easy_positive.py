"""Easy positive sampling."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.configurable import built
from holdfast.errors import RecipeError
from holdfast.mining.base import Miner, register
from holdfast.mining.batch import MiningBatch, some
from holdfast.mining.draw import nearest
from holdfast.mining.known import in_training
from holdfast.mining.multi_similarity import MultiSimilarityMiner
from holdfast.mining.triplet import Anchors, Random, TripletMiner
from holdfast.mining.tuples import Recalled, Tuples
from holdfast.sphere import Mask


@register("easy-positive")
class EasyPositive(TripletMiner):
    """The nearest positive, and a negative chosen by another miner relative to it.

    Pulling an anchor only to its nearest class member lets a class keep several modes instead of collapsing.

    Args:
        negative: miner whose rule picks the negative: `random` (when left out), `distance`, `semihard`, `hardest`;
            with `multi-similarity` the result is pairs: what that miner finds where the nearest positive p is the
            anchor's only one, so negatives with `s + ε > s_ap`, and p itself if there is such a negative. An anchor
            whose negatives are all farther than that is solved and has no pairs. Of a triplet miner only the negative
            rule is used.
        anchors: `each` image or the `first` of each consecutive pair.

    Requirements: two or more images per class (better four) and two or more classes in a batch.
    Relations: `ephn` is this with `negative: hardest`.
    Reference: Levi et al., ICCV 2021 (EPS).
    """

    def __init__(self, negative: Miner | str | None = None, anchors: Anchors = "each") -> None:
        super().__init__(anchors)
        chosen = Random() if negative is None else built(Miner, negative)
        if isinstance(chosen, EasyPositive) or not isinstance(chosen, TripletMiner | MultiSimilarityMiner):
            others = "random, distance, semihard, hardest or multi-similarity"
            raise RecipeError(f"easy-positive cannot take negatives from {type(chosen).__name__}; use {others}")
        self.negative = chosen
        self.triplets = chosen.triplets

    def __call__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        generator: Generator | None = None,
        images: Tensor | None = None,
        recalled: Recalled | None = None,
    ) -> Tuples:
        """Mine a batch."""
        if isinstance(self.negative, MultiSimilarityMiner):
            return self.pairs(MiningBatch(embeddings, labels, images, recalled))
        return super().__call__(embeddings, labels, generator, images, recalled)

    def choose_positives(self, batch: MiningBatch, generator: Generator | None) -> Tensor:
        """The closest image of the class."""
        return nearest(batch.distance, batch.positive)

    def choose_negatives(self, batch: MiningBatch, positive: Tensor, generator: Generator | None) -> Tensor:
        """By the other miner's rule."""
        assert isinstance(self.negative, TripletMiner)
        return self.negative.choose_negatives(batch, positive, generator)

    def masks(self, batch: MiningBatch) -> tuple[Mask, Mask] | None:
        """With negatives of `multi-similarity`: the nearest positive and what that miner finds beside it."""
        if not isinstance(self.negative, MultiSimilarityMiner):
            return None
        if not in_training():  # a recipe sees to it that its batches have two classes
            batch.require_classes()
        s = batch.similarity
        anchors = self.eligible(batch)[:, None]
        easiest = s.masked_fill(~batch.positive, -torch.inf).argmax(1, keepdim=True)
        easy = torch.zeros_like(batch.positive).scatter_(1, easiest, True) & anchors
        hard = self.negative.hard_negatives(s, easy, batch.negative)
        return easy & some(hard)[:, None], hard
