"""What losses on pairs and losses on triplets share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Generator, Tensor

from holdfast.errors import RecipeError
from holdfast.losses.blocks import row_cost
from holdfast.losses.halves import halvable
from holdfast.losses.hinged import close_pairs, hinged_cost
from holdfast.losses.layout import masks_of, sides_by_labels, sides_by_tuples
from holdfast.losses.pooled import poolable, pooled_cost
from holdfast.losses.sides import Listed, Side, Sides
from holdfast.losses.terms import TermLoss, Terms
from holdfast.mining import Miner, Triplets, Tuples
from holdfast.mining.batch import relations
from holdfast.sphere import Mask, distances, similarity, squared_distances

Part: TypeAlias = Literal["both", "positive", "negative"]
Measure: TypeAlias = Literal["similarity", "distance", "squared distance"]

MEASURES: dict[Measure, Callable[[Tensor], Tensor]] = {
    "similarity": similarity,
    "distance": distances,
    "squared distance": squared_distances,
}


class TupleLoss(TermLoss):
    """A loss on the n × n matrix of similarities or distances of a batch.

    A batch without a positive pair, or without a negative one, costs zero in every loss that compares the two; the
    zero has a graph, so training goes on.

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

    def one_sided(self, matrix: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The matrix with the entries that `part` leaves out detached."""
        if self.part == "both":
            return matrix
        left_out = negative if self.part == "positive" else positive
        return torch.where(left_out.bool(), self.constant(matrix), matrix)

    def constant(self, entries: Tensor) -> Tensor:
        """Entries of the matrix that `part` leaves out."""
        return entries.detach()


class PairLoss(TupleLoss):
    """A loss on positive and negative pairs. Triplets count each of their distinct pairs once."""

    by_rows = True
    """Whether an anchor's costs need its own row of the matrix only, so that rows can be taken in blocks; not for
    distances, whose root has no derivative at zero."""

    measure: Measure = "similarity"
    """What the matrix holds."""

    @property
    def sharpness(self) -> float | None:
        """The scale at which negatives enter a cost only through the log-sum-exp of those of its anchor, if so."""
        return None

    @property
    def reach(self) -> float | None:
        """The squared distance from which a negative costs nothing, where every pair has its own cost, if so."""
        return None

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The sum of the average costs."""
        if not self.by_rows or any(parameter.requires_grad for parameter in self.parameters()):
            return super().forward(embeddings, labels, tuples, generator)
        sides = self._sides(embeddings, labels, tuples, generator)
        if isinstance(sides.near, Listed) and halvable(embeddings, labels, sides):
            if self.sharpness is not None and poolable(embeddings, self.sharpness):
                return pooled_cost(embeddings, sides.near, self._costs, self.sharpness)
            close = None if self.reach is None else close_pairs(embeddings, sides.near, self.reach)
            if close is not None:
                return hinged_cost(embeddings, sides.near, close, self._costs)
        return row_cost(embeddings, sides, self._costs, self.measure == "squared distance")

    def matrix(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """What the loss compares."""
        return MEASURES[self.measure](embeddings)

    def terms(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None, generator: Generator | None = None
    ) -> list[Terms]:
        """The costs as `pairs` returns them."""
        sides = self._sides(embeddings, labels, tuples, generator)
        return self._costs(*sides.take(self.matrix(embeddings, labels), slice(0, len(embeddings))))

    def _sides(self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None, generator: Generator | None) -> Sides:
        tuples = self.chosen(embeddings, labels, tuples, generator)
        apart = self.measure != "similarity"
        if tuples is None:
            return sides_by_labels(embeddings, labels, apart)
        return sides_by_tuples(embeddings, tuples, apart)

    def _costs(self, near: Side, far: Side) -> list[Terms]:
        if self.part == "positive":
            far = far.detached()
        elif self.part == "negative":
            near = near.detached()
        return self.pairs(near, far)

    @abstractmethod
    def pairs(self, near: Side, far: Side) -> list[Terms]:
        """The costs of some rows of the matrix, from their positive and from their negative pairs."""


class TripletLoss(TupleLoss):
    """A loss on triplets. Pairs stand for every triplet that joins a positive and a negative of one anchor."""

    active = False
    """Whether the average is over costs above zero only."""

    @property
    def on_triplets(self) -> bool:
        """Yes."""
        return True

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The average cost of the triplets."""
        tuples = self.chosen(embeddings, labels, tuples, generator)
        if isinstance(tuples, Triplets):
            return self.terms(embeddings, labels, tuples)[0].mean()
        positive, negative = relations(embeddings, labels) if tuples is None else masks_of(tuples, len(embeddings))
        matrix = self.matrix(embeddings, labels)
        return self.every(self.one_sided(matrix, positive, negative), positive, negative)

    def terms(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None, generator: Generator | None = None
    ) -> list[Terms]:
        """One cost per given or mined triplet."""
        tuples = self.chosen(embeddings, labels, tuples, generator)
        if not isinstance(tuples, Triplets):
            raise RecipeError("single triplets are needed here; give the loss a miner that returns them (random)")
        near, far = self.entries(embeddings, labels, tuples)
        if self.part != "both":
            near, far = (near, self.constant(far)) if self.part == "positive" else (self.constant(near), far)
        cost = self.cost(near, far)
        return [Terms(cost, active=self.active)]

    def entries(self, embeddings: Tensor, labels: Tensor, triplets: Triplets) -> tuple[Tensor, Tensor]:
        """What the loss compares of each triplet: an entry of the matrix for its positive, and one for its negative."""
        matrix = self.matrix(embeddings, labels)
        return matrix[triplets.anchor, triplets.positive], matrix[triplets.anchor, triplets.negative]

    @abstractmethod
    def cost(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The cost of triplets, elementwise, from their positive and negative entries of the matrix."""

    @abstractmethod
    def every(self, matrix: Tensor, positive: Mask, negative: Mask) -> Tensor:
        """The average over every triplet of the masks, without listing them."""


def triplet_count(positive: Mask, negative: Mask, dtype: torch.dtype) -> Tensor:
    """How many triplets the masks hold; one at least, to divide by."""
    return (positive.sum(1) * negative.sum(1)).sum().clamp_min(1).to(dtype)
