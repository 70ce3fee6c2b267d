"""Soft-hard triplets."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.mining.base import register
from holdfast.mining.batch import MiningBatch
from holdfast.mining.draw import prefer, uniform
from holdfast.mining.triplet import TripletMiner


@register("softhard")
class SoftHard(TripletMiner):
    """Positives beyond the nearest negative, negatives within the farthest positive.

    The positive is uniform among `d_ap > min_n d_an`, the negative uniform among `d_an < max_p d_ap`; where none
    qualifies, any positive or negative. The two are drawn independently.

    Args:
        anchors: `each` image or the `first` of each consecutive pair.
        variant: in the `published` one an anchor without a qualifying positive may be drawn as its own.

    Requirements: two or more images per class and two or more classes in a batch.
    Relations: softer than `hardest`, harder than `semihard`.
    Reference: Roth et al., ICML 2020.
    """

    @property
    def needs_pairs(self) -> bool:
        """The published rule draws positives from the whole class, so only `first` relies on pairs."""
        return self.anchors == "first"

    def choose_positives(self, batch: MiningBatch, generator: Generator | None) -> Tensor:
        """Uniform among the hard positives."""
        closest = batch.distance.masked_fill(~batch.negative, torch.inf).amin(1, keepdim=True)
        own_class = batch.positive
        if self.variant == "published":
            own_class = own_class | torch.eye(len(own_class), dtype=torch.bool, device=own_class.device)
        return uniform(prefer(batch.positive & (batch.distance > closest), own_class), generator)

    def choose_negatives(self, batch: MiningBatch, positive: Tensor, generator: Generator | None) -> Tensor:
        """Uniform among the hard negatives."""
        farthest = batch.distance.masked_fill(~batch.positive, -torch.inf).amax(1, keepdim=True)
        return uniform(prefer(batch.negative & (batch.distance < farthest), batch.negative), generator)
