"""Geometry of unit vectors: similarities, distances, alignment, energies.

`s = a·b` and `d = ||a - b|| = sqrt(2 - 2 s)` on the unit sphere. Everything here runs in float32 or better whatever
the ambient precision, and every gradient is finite, also where two vectors coincide.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.errors import DataError
from holdfast.fast import gram

Mask = Tensor
"""A boolean n × n matrix of pairs."""


def precise(vectors: Tensor) -> Tensor:
    """At least float32: half-precision embeddings are widened, float64 stays."""
    return vectors if vectors.dtype in (torch.float32, torch.float64) else vectors.float()


def similarity(a: Tensor, b: Tensor | None = None) -> Tensor:
    """All-pairs dot products, outside autocast."""
    a = precise(a)
    with torch.autocast(a.device.type, enabled=False):
        return gram(a) if b is None else a @ precise(b).T


def safe_sqrt(squared: Tensor) -> Tensor:
    """Square root whose gradient at zero (and below, after rounding) is zero instead of infinite; NaN stays NaN."""
    nothing = squared <= 0
    return squared.masked_fill(nothing, 1.0).sqrt().masked_fill(nothing, 0.0)


def squared_distances(a: Tensor, b: Tensor | None = None) -> Tensor:
    """All-pairs squared euclidean distances of any vectors, never negative."""
    return _squared(a, b).clamp_min(0)


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
        positive, negative = labels.clone(), ~labels
        return positive.fill_diagonal_(False), negative.fill_diagonal_(False)
    if labels.ndim != 1:
        raise DataError(f"labels must have shape (n,), got {tuple(labels.shape)}")
    same = labels[:, None] == labels[None, :]
    negative = ~same
    return same.fill_diagonal_(False), negative


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the selected values; zero (with a graph) when nothing is selected."""
    return torch.where(mask, values, 0).sum() / mask.sum().clamp_min(1)


def alignment(vectors: Tensor, labels: Tensor, include_self: bool = False) -> Tensor:
    """Mean squared distance of positive pairs.

    Args:
        include_self: also count each vector with itself (positives drawn independently), as the identities need.
    """
    positive, _ = pair_masks(labels)
    if include_self:
        positive = positive | torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return masked_mean(squared_distances(vectors), positive)


def _off_diagonal(matrix: Tensor) -> Tensor:
    n = len(matrix)
    return matrix.flatten()[1:].view(n - 1, n + 1)[:, :-1].reshape(n, n - 1)


def energy(vectors: Tensor, s: float = 1.0) -> Tensor:
    """Hyperspherical energy: mean over i≠j of `d^-s`, or of `log(1/d)` for `s = 0`.

    Coinciding vectors have infinite energy; distances are held above 1e-6 so that value and gradient stay finite.
    """
    if s < 0:
        raise ValueError(f"the exponent of the energy must not be negative, got {s}")
    log_d = 0.5 * _off_diagonal(squared_distances(vectors)).clamp_min(1e-12).log()
    return -log_d.mean() if s == 0 else (-s * log_d).exp().mean()


def gaussian_energy(vectors: Tensor, s: float = 1.0, log: bool = False) -> Tensor:
    """Mean over i≠j of `exp(-s d²)`; its logarithm is the training regulariser.

    The published table lists the value without the logarithm and with `s = 1`, for which orthogonal vectors
    give 0.135.
    """
    exponents = -s * _off_diagonal(squared_distances(vectors))
    if log:
        count = torch.tensor(float(exponents.numel()), device=exponents.device)
        return exponents.flatten().logsumexp(0) - count.log()
    return exponents.exp().mean()


def unbiased(vectors: Tensor) -> Tensor:
    """Squared length of the mean vector; zero when the vectors balance around the centre."""
    return precise(vectors).mean(0).square().sum()


def total_variation(vectors: Tensor) -> Tensor:
    """Mean squared distance to the overall mean; equals `1 - unbiased` on the sphere."""
    vectors = precise(vectors)
    return (vectors - vectors.mean(0)).square().sum(1).mean()


def intra_variation(vectors: Tensor, labels: Tensor) -> Tensor:
    """Mean squared distance to the mean of the own class."""
    vectors = precise(vectors)
    return (vectors - _class_means(vectors, labels)).square().sum(1).mean()


def inter_variation(vectors: Tensor, labels: Tensor) -> Tensor:
    """Mean squared distance of the class means, weighted by class size, to the overall mean."""
    vectors = precise(vectors)
    return (_class_means(vectors, labels) - vectors.mean(0)).square().sum(1).mean()


def _class_means(vectors: Tensor, labels: Tensor) -> Tensor:
    """Each vector's class mean."""
    same = (labels[:, None] == labels[None, :]).to(vectors.dtype)
    return similarity(same / same.sum(1, keepdim=True), vectors.T)


def effective_rank(vectors: Tensor) -> Tensor:
    """Exponential of the entropy of the normalised singular values: how many dimensions are in use."""
    singular = torch.linalg.svdvals(precise(vectors))
    p = singular / singular.sum().clamp_min(1e-12)
    return torch.exp(-(p * p.clamp_min(1e-12).log()).sum())
