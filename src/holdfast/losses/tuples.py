"""What losses on pairs and losses on triplets share."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Generator, Tensor

from holdfast.errors import RecipeError
from holdfast.losses.base import Encoded
from holdfast.losses.comparison import Comparison, shifted
from holdfast.losses.memory import Memory
from holdfast.losses.unreduced import AveragedLoss, Unreduced, total_mean
from holdfast.mining import IndicesTuple, Miner, MiningBatch, Triplets
from holdfast.mining.tuples import as_tuples
from holdfast.sphere import Mask, distances, similarity, squared_distances

Part: TypeAlias = Literal["both", "positive", "negative"]
Measure: TypeAlias = Literal["similarity", "distance", "squared distance"]

MEASURES: dict[Measure, Callable[[Tensor, Tensor | None], Tensor]] = {
    "similarity": similarity,
    "distance": distances,
    "squared distance": squared_distances,
}


class TupleLoss(AveragedLoss):
    """A loss on the n × n matrix of similarities or distances of a batch.

    A batch without a positive pair, or without a negative one, has loss zero wherever the two are compared; the zero
    has a graph, so training goes on.

    With a memory, the matrix is n × m: a batch is compared with the latest m embeddings the loss was called with, its
    own among them but no image with itself; gradients flow through the batch alone. A miner mines there, and given
    tuples, whose indices are those of the batch, are learnt beside what it finds. The memory is part of the loss's
    state; in eval mode nothing is added to it. This is pytorch-metric-learning's `CrossBatchMemory` (Wang et al., CVPR
    2020).

    Args:
        miner: chooses the tuples; all pairs or triplets when left out.
        part: gradients flow only through pairs of this kind; the other kind is detached.
        memory: how many embeddings are remembered; none when left out.
    """

    measure: Measure = "similarity"
    """What the matrix holds."""

    def __init__(self, miner: Miner | str | None = None, part: Part = "both", memory: int | None = None) -> None:
        super().__init__(miner)
        self.part = part
        self.memory = memory
        self.queue = None if memory is None else Memory(memory)
        if self.queue is not None and self.miner is not None:
            _require_recall(self.miner)

    def matrix(self, compared: Comparison) -> Tensor:
        """What the loss compares."""
        if compared.similarities is not None:
            return compared.similarities
        recalled = compared.recalled
        return MEASURES[self.measure](compared.embeddings, None if recalled is None else recalled.vectors)

    def compare(
        self,
        embeddings: Tensor,
        labels: Tensor,
        tuples: IndicesTuple | None,
        generator: Generator | None,
        images: Tensor | None = None,
    ) -> Comparison:
        """What the loss looks at: the batch, its memory, and the tuples given, mined, or none for all.

        Args:
            embeddings: vectors of shape (n, dim).
            labels: integers of shape (n,), or a boolean n × n relevance matrix.
            tuples: triplets or pairs mined elsewhere.
            generator: passed to the loss's own miner.
            images: which image each row shows; miners know copies by it.
        """
        self.check_lengths(embeddings)
        given = None if tuples is None else as_tuples(tuples, embeddings.device)
        if self.queue is None:
            if given is None and self.miner is not None:
                return self.mined(self.miner, embeddings, labels, generator, images)
            return Comparison(embeddings, labels, tuples=given, given=given is not None)
        recalled = self.queue.recall(embeddings, labels, images)
        mined = None if self.miner is None else self.miner(embeddings, labels, generator, images, recalled)
        beside = None if given is None else shifted(given, len(recalled.vectors) - len(embeddings))
        return Comparison(embeddings, labels, recalled, mined, beside, given is not None)

    def mined(
        self, miner: Miner, embeddings: Tensor, labels: Tensor, generator: Generator | None, images: Tensor | None
    ) -> Comparison:
        """The batch, and what a miner chooses of it: masks where it has those, which need no GPU to be asked."""
        if miner.has_masks and not miner.triplets:
            batch = MiningBatch(embeddings, labels, images)
            s: Tensor | None = None
            if self.measure == "similarity" and type(self).matrix is TupleLoss.matrix:
                s = similarity(embeddings)
                batch.similarity = s.detach()  # a miner that looks at what this loss compares does so once
            chosen = miner.masks(batch)
            if chosen is not None:
                return Comparison(embeddings, labels, similarities=s, chosen=chosen)
        return Comparison(embeddings, labels, tuples=miner(embeddings, labels, generator, images))

    def batch_loss(
        self, encoded: Encoded, tuples: IndicesTuple | None, generator: Generator | None, step: int
    ) -> Tensor:
        """The scalar loss in training, where image numbers are known."""
        return self.reduced(self.compare(encoded.z, encoded.labels, tuples, generator, encoded.numbers))

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: IndicesTuple | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The sum of the averages."""
        return self.reduced(self.compare(embeddings, labels, tuples, generator))

    def unreduced(
        self, embeddings: Tensor, labels: Tensor, tuples: IndicesTuple | None = None, generator: Generator | None = None
    ) -> list[Unreduced]:
        """The losses behind each average."""
        return self.single(self.compare(embeddings, labels, tuples, generator))

    def reduced(self, compared: Comparison) -> Tensor:
        """The scalar loss of what is compared."""
        return total_mean(self.single(compared))

    @abstractmethod
    def single(self, compared: Comparison) -> list[Unreduced]:
        """The losses behind each average, of what is compared."""

    def one_sided(self, matrix: Tensor, pos: Mask, neg: Mask) -> Tensor:
        """The matrix with the entries that `part` leaves out detached."""
        if self.part == "both":
            return matrix
        return torch.where(neg if self.part == "positive" else pos, self.constant(matrix), matrix)

    def constant(self, entries: Tensor) -> Tensor:
        """Entries of the matrix that `part` leaves out."""
        return entries.detach()


class PairLoss(TupleLoss):
    """A loss on positive and negative pairs. Of triplets it learns on the pairs.

    A subclass is its formula: `pairs`.
    """

    repeats: ClassVar[bool] = False
    """Whether a pair that is given more than once counts as often, as in pytorch-metric-learning; `pairs` then gets
    numbers in place of masks."""

    @abstractmethod
    def pairs(self, s: Tensor, pos: Mask, neg: Mask) -> list[Unreduced]:
        """The losses of all anchors, one row each.

        Args:
            s: similarities to all images, or what `measure` says.
            pos: which of them are positive pairs.
            neg: which are negative pairs.
        """

    def single(self, compared: Comparison) -> list[Unreduced]:
        """The losses as `pairs` returns them."""
        pos, neg = compared.masks()
        s = self.one_sided(self.matrix(compared), pos, neg)
        if self.repeats and compared.given:
            pos, neg = compared.masks(s.dtype)
        return self.pairs(s, pos, neg)


class TripletLoss(TupleLoss):
    """A loss on triplets.

    Pairs, each counted once, stand for every triplet that joins a positive and a negative of one anchor.
    """

    active = False
    """Whether the average is over losses above zero only."""

    @property
    def on_triplets(self) -> bool:
        """Yes."""
        return True

    def reduced(self, compared: Comparison) -> Tensor:
        """The average loss of the triplets."""
        if compared.triplets is not None:
            return super().reduced(compared)
        pos, neg = compared.masks()
        return self.every(self.one_sided(self.matrix(compared), pos, neg), pos, neg)

    def single(self, compared: Comparison) -> list[Unreduced]:
        """One loss per given or mined triplet."""
        triplets = compared.triplets
        if triplets is None:
            raise RecipeError("this loss needs a triplet miner here; give it one (miner: random)")
        pos, neg = self.entries(compared, triplets)
        if self.part != "both":
            pos, neg = (pos, self.constant(neg)) if self.part == "positive" else (self.constant(pos), neg)
        return [Unreduced(self.triplets(pos, neg), active=self.active)]

    def entries(self, compared: Comparison, triplets: Triplets) -> tuple[Tensor, Tensor]:
        """What the loss compares of each triplet: an entry of the matrix for its positive, and one for its negative."""
        matrix = self.matrix(compared)
        return matrix[triplets.anchor, triplets.positive], matrix[triplets.anchor, triplets.negative]

    @abstractmethod
    def triplets(self, pos: Tensor, neg: Tensor) -> Tensor:
        """The losses of triplets, elementwise, from their positive and negative entries of the matrix."""

    @abstractmethod
    def every(self, matrix: Tensor, pos: Mask, neg: Mask) -> Tensor:
        """The average over every triplet of the masks, without listing them."""


def triplet_count(pos: Mask, neg: Mask, dtype: torch.dtype) -> Tensor:
    """How many triplets the masks hold; one at least, to divide by."""
    return (pos.sum(1) * neg.sum(1)).sum().clamp_min(1).to(dtype)


def _require_recall(miner: Miner) -> None:
    """Refuse a miner that cannot look into a memory."""
    try:
        inspect.signature(miner).bind("embeddings", "labels", "generator", "images", "recalled")
    except TypeError as error:
        raise RecipeError(
            f"{type(miner).__name__} does not mine in a memory; give its __call__ the argument recalled=None"
        ) from error
