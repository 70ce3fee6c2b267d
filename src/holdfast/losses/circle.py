"""The circle loss."""

from __future__ import annotations

import torch
from torch.nn.functional import softplus

from holdfast.losses.base import register
from holdfast.losses.logsumexp import masked_logsumexp
from holdfast.losses.sides import Side
from holdfast.losses.terms import Terms, require_positive
from holdfast.losses.tuples import PairLoss, Part
from holdfast.mining import Miner


@register("circle")
class Circle(PairLoss):
    """Weighs each pair by how far it is from where it should be, inside a soft comparison of the two kinds.

    L = mean_i log(1 + Σ_P exp(-γ w_p (s - 1 + m)) Σ_N exp(γ w_n (s - m))), w_p = relu(1 + m - s), w_n = relu(s + m)

    The weights w are constants for the gradient. Its single costs are anchors with both kinds of pairs.

    Args:
        margin: relaxation m.
        gamma: scale γ.
        miner: chooses the pairs; all of them when left out.
        part: gradients flow only through pairs of this kind.

    Requirements: unit vectors; two or more images per class and two or more classes in a batch.
    Relations: without the weights it is a soft triplet loss with all pairs of an anchor at once.
    Reference: Sun et al., CVPR 2020 (its setting for fine-grained retrieval).
    """

    exact = False

    def __init__(
        self, margin: float = 0.4, gamma: float = 80.0, *, miner: Miner | str | None = None, part: Part = "both"
    ) -> None:
        super().__init__(miner, part)
        require_positive(gamma=gamma)
        self.margin = margin
        self.gamma = gamma

    def pairs(self, near: Side, far: Side) -> list[Terms]:
        """One cost per anchor."""
        pull = torch.relu(1 + self.margin - near.values.detach()) * (1 - self.margin - near.values)
        push = torch.relu(far.values.detach() + self.margin) * (far.values - self.margin)
        # Beyond their margin pairs cost exp(0) each, so those that are none have to be left out by their mask.
        exponent = masked_logsumexp(pull, near.mask, self.gamma) + masked_logsumexp(push, far.mask, self.gamma)
        return [Terms(softplus(exponent), near.mask.amax(1) * far.mask.amax(1))]
