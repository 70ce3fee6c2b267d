"""The multi-similarity loss."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn.functional import softplus

from holdfast.losses.base import register
from holdfast.losses.tuples import PairLoss, Part
from holdfast.losses.unreduced import Unreduced, masked_logsumexp, require_positive
from holdfast.mining import Miner
from holdfast.pair_matrix import packed
from holdfast.sphere import Mask


@register("multi-similarity")
class MultiSimilarity(PairLoss):
    """Weighs every pair by how it compares with the anchor's other pairs.

    L = mean_i [ log(1 + Σ_P exp(-α(s - λ))) / α + log(1 + Σ_N exp(β(s - λ))) / β ]

    Its single losses are anchors. What counts as one decides how a term weighs beside others: where a miner leaves 64 %
    of the images with pairs, `mined` is 1.6 times `all`.

    Args:
        alpha: sharpness on positives.
        beta: sharpness on negatives.
        base: similarity λ at which a pair is neutral.
        miner: chooses the pairs; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.
        reduction: average over `all` images, those without a pair at zero (pytorch-metric-learning), or over
            those with a positive and a negative pair, `mined` (the training framework of ADML, MDProp and EPS).

    Requirements: unit vectors; two or more images per class in a batch.
    Relations: usually with the miner `multi-similarity`; `binomial-deviance` drops the comparison with other pairs.
    Reference: Wang et al., CVPR 2019.
    """

    unit_vectors = True

    def __init__(
        self,
        alpha: float = 2.0,
        beta: float = 40.0,
        base: float = 0.5,
        *,
        miner: Miner | str | None = None,
        part: Part = "both",
        memory: int | None = None,
        reduction: Literal["all", "mined"] = "all",
    ) -> None:
        super().__init__(miner, part, memory)
        require_positive(alpha=alpha, beta=beta)
        self.alpha = alpha
        self.beta = beta
        self.base = base
        self.reduction = reduction

    def pairs(self, s: Tensor, pos: Mask, neg: Mask) -> list[Unreduced]:
        """One loss per anchor."""
        few, s_pos = packed(pos, s)
        pull = softplus(masked_logsumexp(s_pos, few, -self.alpha) + self.alpha * self.base) / self.alpha
        push = softplus(masked_logsumexp(s, neg, self.beta) - self.beta * self.base) / self.beta
        return [Unreduced(pull + push, None if self.reduction == "all" else few.any(1) & neg.any(1))]
