"""The triplet loss without margin and hinge."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.losses.base import register
from holdfast.losses.tuples import Part, TripletLoss, triplet_count
from holdfast.mining import Miner
from holdfast.sphere import Mask


@register("linear")
class Linear(TripletLoss):
    """Pulls every positive and pushes every negative with the same force.

    L = mean (d_ap² - d_an²)

    Args:
        miner: chooses the triplets; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: two or more images per class and two or more classes in a batch. Unbounded below unless the
        vectors have unit length.
    Relations: `triplet` with an infinite margin. On the sphere it is alignment plus twice the squared mean vector,
        up to constants.
    """

    measure = "squared distance"

    def __init__(self, *, miner: Miner | str | None = None, part: Part = "both", memory: int | None = None) -> None:
        super().__init__(miner, part, memory)

    def triplets(self, pos: Tensor, neg: Tensor) -> Tensor:
        """The difference."""
        return pos - neg

    def every(self, matrix: Tensor, pos: Mask, neg: Mask) -> Tensor:
        """Each positive pair occurs once per negative of its anchor and the other way round."""
        pull = torch.where(pos, matrix, 0).sum(1) * neg.sum(1)
        push = torch.where(neg, matrix, 0).sum(1) * pos.sum(1)
        return (pull - push).sum() / triplet_count(pos, neg, matrix.dtype)
