"""Geometry of unit vectors: similarities, distances, pairs.

`s = a·b` and `d = ||a - b|| = sqrt(2 - 2 s)` on the unit sphere. Everything here runs in float32 or better whatever
the ambient precision, and every gradient is finite, also where two vectors coincide.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.errors import DataError
from holdfast.pair_matrix import gram, product

Mask = Tensor
"""A boolean n × n matrix of pairs."""


def precise(vectors: Tensor) -> Tensor:
    """At least float32: half-precision embeddings are widened, float64 stays."""
    return vectors if vectors.dtype in (torch.float32, torch.float64) else vectors.float()


def similarity(a: Tensor, b: Tensor | None = None) -> Tensor:
    """All-pairs dot products, outside autocast."""
    a = precise(a)
    if torch.is_autocast_enabled(a.device.type):
        with torch.autocast(a.device.type, enabled=False):
            return similarity(a, b)
    return gram(a) if b is None else product(a, precise(b))


def safe_sqrt(squared: Tensor) -> Tensor:
    """Square root whose gradient at zero (and below, after rounding) is zero instead of infinite; NaN stays NaN."""
    nothing = (squared.detach() <= 0).to(squared.dtype)
    return (squared.relu() + nothing).sqrt() - nothing


def squared_distances(a: Tensor, b: Tensor | None = None) -> Tensor:
    """All-pairs squared euclidean distances of any vectors, never negative."""
    return _squared(a, b).relu()


def distances(a: Tensor, b: Tensor | None = None) -> Tensor:
    """All-pairs euclidean distances with a finite gradient at zero."""
    return safe_sqrt(_squared(a, b))


def _squared(a: Tensor, b: Tensor | None) -> Tensor:
    """Squared distances, which rounding may leave below zero."""
    a = precise(a)
    norms_a = a.square().sum(1)
    norms_b = norms_a if b is None else precise(b).square().sum(1)
    return torch.sub(norms_a[:, None] + norms_b[None, :], similarity(a, b), alpha=2)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Row-by-row euclidean distance, computed from the difference so that small distances keep their digits."""
    return safe_sqrt((precise(a) - precise(b)).square().sum(-1))


def pairwise_distance(a: Tensor, b: Tensor) -> Tensor:
    """Row by row `||a - b + 1e-6||`, torch's function of that name: it has a direction where two vectors coincide."""
    return F.pairwise_distance(precise(a), precise(b))


def pair_masks(labels: Tensor) -> tuple[Mask, Mask]:
    """Positive and negative pairs; a vector is paired with itself in neither.

    Args:
        labels: integers of shape (n,), or a boolean n × n relevance matrix for multi-label data.
    """
    if labels.dtype == torch.bool:
        if labels.ndim != 2 or labels.shape[0] != labels.shape[1]:
            raise DataError(f"a relevance matrix must be n × n, got {tuple(labels.shape)}")
        positive = labels.clone(memory_format=torch.contiguous_format)
        negative = ~positive
        return positive.fill_diagonal_(False), negative.fill_diagonal_(False)
    if labels.ndim != 1:
        raise DataError(f"labels must have shape (n,), got {tuple(labels.shape)}")
    same = labels[:, None] == labels[None, :]
    negative = ~same
    return same.fill_diagonal_(False), negative


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the selected values; zero (with a graph) when nothing is selected."""
    return torch.where(mask, values, 0).sum() / mask.sum().clamp_min(1)


def row_mean(values: Tensor, mask: Mask, otherwise: float = 0.0) -> Tensor:
    """Mean of each row's selected values; `otherwise` where none is selected."""
    count = mask.sum(1)
    return torch.where(count > 0, torch.where(mask, values, 0).sum(1) / count.clamp_min(1), otherwise)


def total_variation(vectors: Tensor) -> Tensor:
    """Mean squared distance to the overall mean; on the sphere 1 minus the squared length of that mean."""
    vectors = precise(vectors)
    return (vectors - vectors.mean(0)).square().sum(1).mean()
