"""Expected losses of a finite embedding whose labels are noisy, computed exactly.

The labels of n points are independent: a point has its true class with probability p and each other class with
(1 - p) / (t - 1). `chances[i, r]` is the probability that point i is labelled r. Indices of a tuple are distinct: a
point is never its own positive. Values are sums over the tuples of an anchor, averaged over anchors.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Boundary: TypeAlias = Literal["fixed", "positive", "any"]
"""Margin's β: equal to the margin as in theorem 2, or each anchor's best one of those above 0, or of all."""


def label_chances(classes: NDArray[np.int64], count: int, p: float) -> Floats:
    """The probability of every label at every point."""
    chances = np.full((len(classes), count), (1 - p) / (count - 1))
    chances[np.arange(len(classes)), classes] = p
    return chances


def triplet_loss(distance: Floats, chances: Floats, margin: float) -> float:
    """All triplets: mean_i Σ_jk P(Y_i = Y_j ≠ Y_k) (D_ij - D_ik + α)+."""
    same = chances @ chances.T
    weight = same[:, :, None] - np.einsum("ir,jr,kr->ijk", chances, chances, chances)
    hinge = np.maximum(distance[:, :, None] - distance[:, None, :] + margin, 0)
    apart = 1 - np.eye(len(distance))
    distinct = apart[:, :, None] * apart[:, None, :] * apart[None]
    return float((weight * hinge * distinct).sum() / len(distance))


def easy_triplet_loss(distance: Floats, chances: Floats, margin: float) -> float:
    """The nearest point with the anchor's label as its positive, every other label's points as negatives.

    Points before the first match surely have another label, those after it have one with 1 - P(label).
    """
    total = 0.0
    for anchor in range(len(distance)):
        gap, others, first = _by_distance(distance, chances, anchor)
        hinge = np.maximum(gap[:, None] - gap[None] + margin, 0)
        nearer, farther = np.tril(hinge, -1).sum(1, keepdims=True), np.triu(hinge, 1) @ (1 - others)
        total += float((first * (nearer + farther)).sum())
    return total / len(distance)


def margin_loss(
    distance: Floats, chances: Floats, margin: float, boundary: Boundary = "fixed", easy: bool = False
) -> float:
    """All pairs, or with `easy` all negative pairs and the nearest positive one.

    mean_i Σ_j P(positive) (D_ij - β_i + α)+ + P(Y_i ≠ Y_j) (β_i - D_ij + α)+
    """
    total = 0.0
    for anchor in range(len(distance)):
        gap, others, first = _by_distance(distance, chances, anchor)
        same = others @ chances[anchor]
        positive = first.sum(1) if easy else same
        beta = _boundaries(gap, margin, boundary)[:, None]
        costs = positive * np.maximum(gap - beta + margin, 0) + (1 - same) * np.maximum(beta - gap + margin, 0)
        total += float(costs.sum(1).min())
    return total / len(distance)


def _by_distance(distance: Floats, chances: Floats, anchor: int) -> tuple[Floats, Floats, Floats]:
    """The other points from the nearest to the farthest: distances, chances, and P(Y_i = r and j is the first with r).

    Of equally near points those likeliest to share the anchor's label come first: its true class.
    """
    alike = chances @ chances[anchor]
    order = np.lexsort((-alike, distance[anchor]))
    order = order[order != anchor]
    others = chances[order]
    unmatched = np.vstack((np.ones(others.shape[1]), np.cumprod(1 - others[:-1], axis=0)))
    return distance[anchor, order], others, others * unmatched * chances[anchor]


def _boundaries(gap: Floats, margin: float, boundary: Boundary) -> Floats:
    """Candidates for β: the loss is piecewise linear in it, so its least value lies at a kink."""
    if boundary == "fixed":
        return np.array([margin])
    kinks = np.unique(np.concatenate((gap - margin, gap + margin)))
    return kinks if boundary == "any" else np.unique(np.maximum(kinks, 0))
