"""The binomial deviance loss."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import softplus

from holdfast.losses.base import register
from holdfast.losses.tuples import PairLoss, Part
from holdfast.losses.unreduced import Unreduced, require_positive
from holdfast.mining import Miner
from holdfast.pair_matrix import packed, weights
from holdfast.sphere import Mask


@register("binomial-deviance")
class BinomialDeviance(PairLoss):
    """Weighs every pair by a sigmoid of its own similarity.

    L = mean_i [ mean_P log(1 + exp(-α(s - λ))) / α + mean_N log(1 + exp(β(s - λ))) / β ]

    The factors 1/α and 1/β make both sides pull with at most unit force, so that a pair's weight is the sigmoid
    itself, as in the direct gradient of the same name. Its single losses are anchors that have a pair.

    Args:
        alpha: sharpness on positives.
        beta: sharpness on negatives.
        base: similarity λ at which a pair is neutral.
        miner: chooses the pairs; all of them when left out.
        part: gradients flow only through pairs of this kind.
        memory: how many earlier embeddings a batch is compared with; none when left out.

    Requirements: unit vectors; a batch with one kind of pair is fine.
    Relations: `multi-similarity` also compares a pair with the anchor's others.
    Reference: Yi et al., ICPR 2014.
    """

    unit_vectors = True

    def __init__(
        self,
        alpha: float = 2.0,
        beta: float = 10.0,
        base: float = 0.5,
        *,
        miner: Miner | str | None = None,
        part: Part = "both",
        memory: int | None = None,
    ) -> None:
        super().__init__(miner, part, memory)
        require_positive(alpha=alpha, beta=beta)
        self.alpha = alpha
        self.beta = beta
        self.base = base

    def pairs(self, s: Tensor, pos: Mask, neg: Mask) -> list[Unreduced]:
        """One loss per anchor."""
        few, s_pos = packed(pos, s)
        pos, neg = weights(few, s.dtype), weights(neg, s.dtype)
        positives, negatives = pos.sum(1), neg.sum(1)
        pull = (pos * softplus(self.base - s_pos, self.alpha)).sum(1) / positives.clamp_min(1)
        push = (neg * softplus(s - self.base, self.beta)).sum(1) / negatives.clamp_min(1)
        return [Unreduced(pull + push, positives + negatives > 0)]
