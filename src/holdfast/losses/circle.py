"""The circle loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from holdfast.losses.base import register
from holdfast.losses.tuples import PairLoss, Part
from holdfast.losses.unreduced import Unreduced, masked_logsumexp, require_positive
from holdfast.mining import Miner
from holdfast.pair_matrix import packed
from holdfast.sphere import Mask


@register("circle")
class Circle(PairLoss):
    """Weighs each pair by how far it is from where it should be, inside a soft comparison of the two kinds.

    L = mean_i log(1 + Σ_P exp(-γ w_p (s - 1 + m)) Σ_N exp(γ w_n (s - m))), w_p = relu(1 + m - s), w_n = relu(s + m)

    The weights w are constants for the gradient. Its single losses are anchors with both kinds of pairs.

    Args:
        margin: relaxation m.
        gamma: scale γ.
        miner: chooses the pairs; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: unit vectors; two or more images per class and two or more classes in a batch.
    Relations: without the weights it is a soft triplet loss with all pairs of an anchor at once.
    Reference: Sun et al., CVPR 2020 (its setting for fine-grained retrieval).
    """

    exact = False
    unit_vectors = True

    def __init__(
        self,
        margin: float = 0.4,
        gamma: float = 80.0,
        *,
        miner: Miner | str | None = None,
        part: Part = "both",
        memory: int | None = None,
    ) -> None:
        super().__init__(miner, part, memory)
        require_positive(gamma=gamma)
        self.margin = margin
        self.gamma = gamma

    def pairs(self, s: Tensor, pos: Mask, neg: Mask) -> list[Unreduced]:
        """One loss per anchor."""
        few, s_pos = packed(pos, s)
        pull = -self.gamma * torch.relu(1 + self.margin - s_pos.detach()) * (s_pos - (1 - self.margin))
        push = self.gamma * torch.relu(s.detach() + self.margin) * (s - self.margin)
        exponent = masked_logsumexp(pull, few) + masked_logsumexp(push, neg)
        return [Unreduced(softplus(exponent), exponent.detach() > torch.finfo(s.dtype).min / 8)]  # has both kinds
