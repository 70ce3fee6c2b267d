"""What losses on pairs and losses on triplets share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Generator, Tensor

from holdfast.errors import RecipeError
from holdfast.losses.unreduced import AveragedLoss, Unreduced, total_mean
from holdfast.mining import Miner, MultiSimilarityMiner, Triplets, Tuples
from holdfast.mining.batch import relations, require_classes
from holdfast.sphere import Mask, distances, similarity, squared_distances

Part: TypeAlias = Literal["both", "positive", "negative"]
Measure: TypeAlias = Literal["similarity", "distance", "squared distance"]

MEASURES: dict[Measure, Callable[[Tensor], Tensor]] = {
    "similarity": similarity,
    "distance": distances,
    "squared distance": squared_distances,
}


class TupleLoss(AveragedLoss):
    """A loss on the n × n matrix of similarities or distances of a batch.

    A batch without a positive pair, or without a negative one, has loss zero wherever the two are compared; the zero
    has a graph, so training goes on.

    Args:
        miner: chooses the tuples; all pairs or triplets when left out.
        part: gradients flow only through pairs of this kind; the other kind is detached.
    """

    def __init__(self, miner: Miner | str | None = None, part: Part = "both") -> None:
        super().__init__(miner)
        self.part = part

    def matrix(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """What the loss compares: similarities unless a subclass says otherwise."""
        return similarity(embeddings)

    def chosen(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None, generator: Generator | None
    ) -> Tuples | None:
        """The tuples to learn on: those given, those mined, or none for all."""
        if tuples is None and self.miner is not None:
            return self.miner(embeddings, labels, generator)
        return tuples

    def masks(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None, generator: Generator | None
    ) -> tuple[Mask, Mask]:
        """Positive and negative pairs to learn on: those of given or mined tuples, each once, or all."""
        tuples = self.chosen(embeddings, labels, tuples, generator)
        return relations(embeddings, labels) if tuples is None else masks_of(tuples, len(embeddings))

    def one_sided(self, matrix: Tensor, pos: Mask, neg: Mask) -> Tensor:
        """The matrix with the entries that `part` leaves out detached."""
        if self.part == "both":
            return matrix
        return torch.where(neg if self.part == "positive" else pos, self.constant(matrix), matrix)

    def constant(self, entries: Tensor) -> Tensor:
        """Entries of the matrix that `part` leaves out."""
        return entries.detach()


class PairLoss(TupleLoss):
    """A loss on positive and negative pairs. Triplets count each of their distinct pairs once.

    A subclass is its formula: `pairs`.
    """

    measure: Measure = "similarity"
    """What the matrix holds."""

    @abstractmethod
    def pairs(self, s: Tensor, pos: Mask, neg: Mask) -> list[Unreduced]:
        """The losses of all anchors, one row each.

        Args:
            s: similarities to all images, or what `measure` says.
            pos: which of them are positive pairs.
            neg: which are negative pairs.
        """

    def matrix(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """What the loss compares."""
        return MEASURES[self.measure](embeddings)

    def unreduced(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None, generator: Generator | None = None
    ) -> list[Unreduced]:
        """The losses as `pairs` returns them."""
        matrix = self.matrix(embeddings, labels)
        known = type(self).matrix is PairLoss.matrix and self.measure == "similarity"  # what that miner looks at
        if tuples is None and known and type(self.miner) is MultiSimilarityMiner:
            positive, negative = relations(embeddings, labels)
            require_classes(negative)
            pos, neg = self.miner.masks(matrix.detach(), positive, negative)
        else:
            pos, neg = self.masks(embeddings, labels, tuples, generator)
        return self.pairs(self.one_sided(matrix, pos, neg), pos, neg)


class TripletLoss(TupleLoss):
    """A loss on triplets. Pairs stand for every triplet that joins a positive and a negative of one anchor."""

    active = False
    """Whether the average is over losses above zero only."""

    @property
    def on_triplets(self) -> bool:
        """Yes."""
        return True

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The average loss of the triplets."""
        tuples = self.chosen(embeddings, labels, tuples, generator)
        if isinstance(tuples, Triplets):
            return total_mean(self.unreduced(embeddings, labels, tuples))
        pos, neg = relations(embeddings, labels) if tuples is None else masks_of(tuples, len(embeddings))
        return self.every(self.one_sided(self.matrix(embeddings, labels), pos, neg), pos, neg)

    def unreduced(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None, generator: Generator | None = None
    ) -> list[Unreduced]:
        """One loss per given or mined triplet."""
        tuples = self.chosen(embeddings, labels, tuples, generator)
        if not isinstance(tuples, Triplets):
            raise RecipeError("this loss needs a triplet miner here; give it one (miner: random)")
        pos, neg = self.entries(embeddings, labels, tuples)
        if self.part != "both":
            pos, neg = (pos, self.constant(neg)) if self.part == "positive" else (self.constant(pos), neg)
        return [Unreduced(self.triplets(pos, neg), active=self.active)]

    def entries(self, embeddings: Tensor, labels: Tensor, triplets: Triplets) -> tuple[Tensor, Tensor]:
        """What the loss compares of each triplet: an entry of the matrix for its positive, and one for its negative."""
        matrix = self.matrix(embeddings, labels)
        return matrix[triplets.anchor, triplets.positive], matrix[triplets.anchor, triplets.negative]

    @abstractmethod
    def triplets(self, pos: Tensor, neg: Tensor) -> Tensor:
        """The losses of triplets, elementwise, from their positive and negative entries of the matrix."""

    @abstractmethod
    def every(self, matrix: Tensor, pos: Mask, neg: Mask) -> Tensor:
        """The average over every triplet of the masks, without listing them."""


def masks_of(tuples: Tuples, size: int) -> tuple[Mask, Mask]:
    """Positive and negative pairs of given tuples as n × n masks."""
    pos = torch.zeros(size, size, dtype=torch.bool, device=tuples.anchor.device)
    neg = torch.zeros_like(pos)
    if isinstance(tuples, Triplets):
        chosen = torch.ones_like(tuples.anchor, dtype=torch.bool)  # a plain True would be copied from the host
        pos[tuples.anchor, tuples.positive] = chosen
        neg[tuples.anchor, tuples.negative] = chosen
    else:
        pos[tuples.anchor, tuples.other] = tuples.same
        neg[tuples.anchor, tuples.other] = ~tuples.same
    return pos, neg


def triplet_count(pos: Mask, neg: Mask, dtype: torch.dtype) -> Tensor:
    """How many triplets the masks hold; one at least, to divide by."""
    return (pos.sum(1) * neg.sum(1)).sum().clamp_min(1).to(dtype)
