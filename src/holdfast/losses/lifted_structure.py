"""The lifted structure loss."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.losses.base import register
from holdfast.losses.tuples import PairLoss, Part
from holdfast.losses.unreduced import Unreduced, masked_logsumexp
from holdfast.mining import Miner
from holdfast.sphere import Mask


@register("lifted-structure")
class LiftedStructure(PairLoss):
    """Compares each positive pair with all negatives of both its images.

    L = mean over positive pairs of relu(J_ij)² / 2,
    J_ij = d_ij + log(Σ_{k∈N_i} exp(m - d_ik) + Σ_{l∈N_j} exp(m - d_jl))

    This is the smooth bound that the original paper optimises. Its single losses are positive pairs; a pair without
    any negative has loss zero. With a memory, N_j is known for positives of the batch and empty for earlier ones.

    Args:
        margin: m.
        miner: chooses the pairs; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: two or more images per class and two or more classes in a batch; vectors of any length.
    Relations: `info-nce` compares with the negatives of one image, on similarities.
    Reference: Oh Song et al., CVPR 2016.
    """

    measure = "distance"
    repeats = True

    def __init__(
        self, margin: float = 1.0, *, miner: Miner | str | None = None, part: Part = "both", memory: int | None = None
    ) -> None:
        super().__init__(miner, part, memory)
        self.margin = margin

    def pairs(self, s: Tensor, pos: Mask, neg: Mask) -> list[Unreduced]:
        """One loss per positive pair."""
        push = masked_logsumexp(s, neg, -1) + self.margin
        # An image without negatives must not be so far below that the second derivative of logaddexp is not a number.
        lowest = self.margin - 30 - s.detach().amax() if s.numel() else push.sum()
        push = torch.maximum(push, lowest)
        older = s.shape[1] - len(s)
        # Of what a memory holds, only the batch itself, which comes last, has negatives that are known.
        others = torch.cat([lowest.expand(older), push]) if older else push
        if s.is_cpu and not torch.compiler.is_compiling():  # elsewhere the host would wait for the length of the list
            i, j = pos.nonzero(as_tuple=True)
            times = None if pos.dtype == torch.bool else pos[i, j]
            return [Unreduced(torch.relu(s[i, j] + torch.logaddexp(push[i], others[j])).square() / 2, times)]
        return [Unreduced(torch.relu(s + torch.logaddexp(push[:, None], others)).square() / 2, pos)]
