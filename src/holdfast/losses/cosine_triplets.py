"""Triplet losses on similarities with a soft comparison."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from holdfast.losses.base import register
from holdfast.losses.tuples import Part, TripletLoss, triplet_count
from holdfast.losses.unreduced import require_positive
from holdfast.mining import Miner
from holdfast.pair_matrix import row_sum, weights
from holdfast.sphere import Mask


@register("triplet-cosine")
class TripletCosine(TripletLoss):
    """A soft triplet loss on similarities: the probability of picking the negative over the positive.

    L = mean -log softmax(τ s_ap, τ s_an) = mean log(1 + exp(τ (s_an - s_ap)))

    Args:
        tau: sharpness τ.
        miner: chooses the triplets; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: unit vectors; two or more images per class and two or more classes in a batch. Usually with the
        miner `ephn`; without a miner the cost grows with the largest class and needs one host read per batch.
    Relations: `info-nce` compares a positive with all negatives at once; `sct` treats hard triplets differently.
    Reference: Xuan et al., WACV 2020.
    """

    unit_vectors = True

    def __init__(
        self, tau: float = 1.0, *, miner: Miner | str | None = None, part: Part = "both", memory: int | None = None
    ) -> None:
        super().__init__(miner, part, memory)
        require_positive(tau=tau)
        self.tau = tau

    def triplets(self, pos: Tensor, neg: Tensor) -> Tensor:
        """Negative log probability of the positive."""
        return softplus(self.tau * (neg - pos))

    def every(self, matrix: Tensor, pos: Mask, neg: Mask) -> Tensor:
        """Each positive of an anchor meets all its negatives; many of them in blocks of anchors."""
        most = int(pos.sum(1).max()) if len(pos) else 0
        column = pos.to(torch.uint8).topk(most, dim=1).indices
        exists = pos.gather(1, column)

        def sums(s: Tensor, rows: slice) -> Tensor:
            mask = weights(exists[rows, :, None] & neg[rows, None], s.dtype)
            return (mask * self.triplets(s.gather(1, column[rows])[:, :, None], s[:, None])).sum()

        total = row_sum(matrix, sums, width=max(1, most) * pos.shape[1])
        return total / triplet_count(pos, neg, matrix.dtype)


@register("sct")
class SelectivelyContrastive(TripletCosine):
    """A soft triplet loss that only pushes the negative where it is closer than the positive.

    L = mean of `λ s_an` where `s_an > s_ap`, otherwise `-log softmax(τ s_ap, τ s_an)`

    Args:
        weight: λ, the weight of hard triplets.
        tau: sharpness τ of the others.
        miner: chooses the triplets; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: unit vectors; two or more images per class and two or more classes in a batch. Usually with the
        miner `ephn`; without a miner as `triplet-cosine`.
    Relations: `triplet-cosine` pulls the positive of a hard triplet too, which can draw the negative along.
    Reference: Xuan et al., ECCV 2020.
    """

    def __init__(
        self,
        weight: float = 1.0,
        tau: float = 1.0,
        *,
        miner: Miner | str | None = None,
        part: Part = "both",
        memory: int | None = None,
    ) -> None:
        super().__init__(tau, miner=miner, part=part, memory=memory)
        self.weight = weight

    def triplets(self, pos: Tensor, neg: Tensor) -> Tensor:
        """Contrastive where hard, soft otherwise."""
        return torch.where(neg > pos, self.weight * neg, super().triplets(pos, neg))
