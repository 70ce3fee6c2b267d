"""Triplet losses on similarities with a soft comparison."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

from holdfast.losses.base import register
from holdfast.losses.terms import require_positive
from holdfast.losses.tuples import Part, TripletLoss, triplet_count
from holdfast.mining import Miner
from holdfast.sphere import Mask


@register("triplet-cosine")
class TripletCosine(TripletLoss):
    """A soft triplet loss on similarities: the probability of picking the negative over the positive.

    L = mean -log softmax(τ s_ap, τ s_an) = mean log(1 + exp(τ (s_an - s_ap)))

    Args:
        tau: sharpness τ.
        miner: chooses the triplets; all of them when left out.
        part: gradients flow only through pairs of this kind.

    Requirements: unit vectors; two or more images per class and two or more classes in a batch. Usually with the
        miner `ephn`; without a miner the cost grows with the largest class and needs one host read per batch.
    Relations: `info-nce` compares a positive with all negatives at once; `sct` treats hard triplets differently.
    Reference: Xuan et al., WACV 2020.
    """

    def __init__(self, tau: float = 1.0, *, miner: Miner | str | None = None, part: Part = "both") -> None:
        super().__init__(miner, part)
        require_positive(tau=tau)
        self.tau = tau

    def cost(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Negative log probability of the positive."""
        return softplus(self.tau * (negative - positive))

    def every(self, matrix: Tensor, positive: Mask, negative: Mask) -> Tensor:
        """One positive per anchor at a time."""
        return mean_over_triplets(self.cost, matrix, positive, negative)


@register("sct")
class SelectivelyContrastive(TripletCosine):
    """A soft triplet loss that only pushes the negative where it is closer than the positive.

    L = mean of `λ s_an` where `s_an > s_ap`, otherwise `-log softmax(τ s_ap, τ s_an)`

    Args:
        weight: λ, the weight of hard triplets.
        tau: sharpness τ of the others.
        miner: chooses the triplets; all of them when left out.
        part: gradients flow only through pairs of this kind.

    Requirements: unit vectors; two or more images per class and two or more classes in a batch. Usually with the
        miner `ephn`; without a miner as `triplet-cosine`.
    Relations: `triplet-cosine` pulls the positive of a hard triplet too, which can draw the negative along.
    Reference: Xuan et al., ECCV 2020.
    """

    def __init__(
        self, weight: float = 1.0, tau: float = 1.0, *, miner: Miner | str | None = None, part: Part = "both"
    ) -> None:
        super().__init__(tau, miner=miner, part=part)
        self.weight = weight

    def cost(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Contrastive where hard, soft otherwise."""
        return torch.where(negative > positive, self.weight * negative, super().cost(positive, negative))


def mean_over_triplets(
    cost: Callable[[Tensor, Tensor], Tensor], matrix: Tensor, positive: Mask, negative: Mask
) -> Tensor:
    """The average of an elementwise triplet cost over every triplet of the masks in O(n²) memory.

    Each anchor's k-th positive meets all negatives in one n × n step, whose intermediate values are computed again
    in the backward pass instead of being kept.
    """
    most = int(positive.sum(1).max())
    column = positive.to(matrix.dtype).topk(most, dim=1).indices
    exists = positive.gather(1, column)
    near = matrix.gather(1, column)

    def step(far: Tensor, one: Tensor, mask: Mask) -> Tensor:
        return torch.where(mask, cost(one, far), 0).sum()

    total = matrix[:0].sum()
    for k in range(most):
        mask = negative & exists[:, k, None]
        total = total + checkpoint(step, matrix, near[:, k, None], mask, use_reentrant=False, preserve_rng_state=False)
    return total / triplet_count(positive, negative, matrix.dtype)
