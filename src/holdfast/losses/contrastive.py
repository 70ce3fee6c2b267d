"""The contrastive loss."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.losses.base import register
from holdfast.losses.tuples import PairLoss, Part
from holdfast.losses.unreduced import Unreduced
from holdfast.mining import Miner
from holdfast.pair_matrix import packed
from holdfast.sphere import Mask

ROUNDING = 8
"""So many times the precision of the largest squared distance is what copies of an image may seem to be apart."""


@register("contrastive")
class Contrastive(PairLoss):
    """Pulls positives together and pushes negatives out of a ball.

    L = mean_P d² + mean_N relu(m - d²), each mean over the pairs above zero

    Its single losses are pairs.

    Args:
        margin: m, a squared distance; the default 1 is half of what orthogonal unit vectors have.
        miner: chooses the pairs; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: vectors of any length; a batch with one kind of pair is fine.
    Relations: `margin` learns the boundary; `triplet` compares the two kinds instead of bounding each.
    Reference: Hadsell et al., CVPR 2006.
    """

    measure = "squared distance"
    repeats = True

    def __init__(
        self, margin: float = 1.0, *, miner: Miner | str | None = None, part: Part = "both", memory: int | None = None
    ) -> None:
        super().__init__(miner, part, memory)
        self.margin = margin

    def pairs(self, s: Tensor, pos: Mask, neg: Mask) -> list[Unreduced]:
        """Both kinds, averaged apart."""
        few, s_pos = packed(pos, s)
        if s.numel():  # copies are at distance zero, and rounding must not count them
            s_pos = torch.where(s_pos > ROUNDING * torch.finfo(s.dtype).eps * s.detach().amax(), s_pos, 0)
        return [Unreduced(s_pos, few, active=True), Unreduced(self.margin - s, neg, active=True)]
