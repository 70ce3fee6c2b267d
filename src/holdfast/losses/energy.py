"""Energies as losses: spread all vectors over the sphere, whatever their classes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Generator, Tensor

from holdfast.errors import RecipeError
from holdfast.losses.base import Loss, register
from holdfast.losses.comparison import masks_of
from holdfast.losses.unreduced import require_positive
from holdfast.mining import IndicesTuple
from holdfast.mining.batch import require_labels
from holdfast.mining.tuples import as_tuples
from holdfast.sphere import Mask, masked_mean, precise, squared_distances

NONE = -1e9
"""In the place of an exponent that does not exist: its exponential is zero, and a sum of them still has a logarithm."""


@register("energy")
class Energy(Loss):
    """Pushes all vectors apart, and learns nothing from their classes.

    gaussian: L = log mean exp(-s d²);  riesz: L = mean d^-s, or mean log(1/d) for s = 0

    Args:
        kind: of the energy.
        s: sharpness, or exponent.

    Requirements: unit vectors; two or more in a batch. Distances are held above 1e-6 in the riesz energy.
    Relations: the negative part of `triplet`, `margin` or `multi-similarity` has a similar effect; that of `linear`
        balances vectors around the centre only. The metric `geometry` has the energies as figures.
    Reference: Liu et al., NeurIPS 2018 (riesz); Wang and Isola, ICML 2020 (gaussian).
    """

    unit_vectors = True

    def __init__(self, kind: Literal["gaussian", "riesz"] = "gaussian", s: float = 1.0) -> None:
        super().__init__()
        if kind == "gaussian":
            require_positive(s=s)
        elif s < 0:
            raise RecipeError(f"s must be 0 or more, got {s}")
        self.kind = kind
        self.s = s

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: IndicesTuple | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The energy of all pairs, or of those given."""
        require_labels(embeddings, labels)
        self.check_lengths(embeddings)
        squared = squared_distances(embeddings if self.kind == "gaussian" else _widest(embeddings))
        if tuples is None:
            chosen = ~torch.eye(len(squared), dtype=torch.bool, device=squared.device)
        else:
            pos, neg = masks_of(as_tuples(tuples, squared.device), (len(squared), len(squared)))
            chosen = pos | neg
        value = self._gaussian(squared, chosen) if self.kind == "gaussian" else self._riesz(squared, chosen)
        return value.to(precise(embeddings).dtype)

    def _gaussian(self, squared: Tensor, chosen: Mask) -> Tensor:
        count = chosen.sum(dtype=squared.dtype)
        total = torch.where(chosen, -self.s * squared, NONE).flatten().logsumexp(0)
        return torch.where(count > 0, total - count.clamp_min(1).log(), 0.0)

    def _riesz(self, squared: Tensor, chosen: Mask) -> Tensor:
        log_distance = 0.5 * squared.clamp_min(1e-12).log()
        return masked_mean(-log_distance if self.s == 0 else (-self.s * log_distance).exp(), chosen)


def _widest(embeddings: Tensor) -> Tensor:
    """In float64 where there is any: small distances count most, and in float32 they are rounding."""
    return embeddings if embeddings.device.type == "mps" else embeddings.double()
