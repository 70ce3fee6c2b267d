"""The triplet loss."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from holdfast.losses.base import register
from holdfast.losses.comparison import Comparison
from holdfast.losses.tuples import Part, TripletLoss, triplet_count
from holdfast.mining import Miner, Triplets
from holdfast.sphere import Mask, pairwise_distance


@register("triplet")
class Triplet(TripletLoss):
    """Wants every negative farther than every positive by a margin.

    L = mean relu(D_ap - D_an + m)

    Given or mined triplets have the loss that torch's `triplet_margin_loss` gives, which adds 1e-6 to each difference.

    Args:
        margin: m; zero is allowed.
        squared: compare squared distances instead of distances.
        reduction: average over `all` triplets, or over those with a `nonzero` loss.
        miner: chooses the triplets; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: two or more images per class and two or more classes in a batch; vectors of any length.
    Relations: `linear` has no hinge; `triplet-cosine` a soft one; `margin` an absolute boundary.
    Reference: Schroff et al., CVPR 2015.
    """

    def __init__(
        self,
        margin: float = 0.2,
        squared: bool = False,
        reduction: Literal["all", "nonzero"] = "all",
        *,
        miner: Miner | str | None = None,
        part: Part = "both",
        memory: int | None = None,
    ) -> None:
        super().__init__(miner, part, memory)
        self.margin = margin
        self.squared = squared
        self.reduction = reduction
        self.active = reduction == "nonzero"
        self.measure = "squared distance" if squared else "distance"

    def entries(self, compared: Comparison, triplets: Triplets) -> tuple[Tensor, Tensor]:
        """Distances as torch's own triplet loss has them."""
        if self.squared:
            return super().entries(compared, triplets)
        anchor, others = compared.embeddings[triplets.anchor], compared.others
        positive, negative = others[triplets.positive], others[triplets.negative]
        return pairwise_distance(anchor, positive), pairwise_distance(anchor, negative)

    def triplets(self, pos: Tensor, neg: Tensor) -> Tensor:
        """The hinge."""
        return torch.relu(pos - neg + self.margin)

    def every(self, matrix: Tensor, pos: Mask, neg: Mask) -> Tensor:
        """Where the hinge is open the loss is linear, so each pair's weight is its number of open triplets."""
        shifted = matrix + self.margin
        with torch.no_grad():
            ordered = matrix.masked_fill(~neg, torch.inf).sort(1).values
            open_negatives = torch.searchsorted(ordered, shifted, out_int32=True)
            ordered = shifted.masked_fill(~pos, -torch.inf).sort(1).values
            open_positives = matrix.shape[1] - torch.searchsorted(ordered, matrix, right=True, out_int32=True)
        pull = torch.where(pos, shifted * open_negatives, 0).sum(1)
        push = torch.where(neg, matrix * open_positives, 0).sum(1)
        if self.active:
            count = torch.where(pos, open_negatives, 0).sum().clamp_min(1)
        else:
            count = triplet_count(pos, neg, matrix.dtype)
        return (pull - push).sum() / count
