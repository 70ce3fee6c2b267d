"""Which embedding the expected losses prefer when labels are noisy: collapsed classes or two modes.

Expected losses of a finite embedding are computed exactly. The labels of n points are independent: a point has its true
class with probability p and each other class with (1 - p) / (t - 1). `chances[i, r]` is the probability that point i is
labelled r. Indices of a tuple are distinct: a point is never its own positive. Values are sums over the tuples of an
anchor, averaged over anchors.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import RecipeError
from holdfast_studies.probes import ProbeFunction, ProbeResult, Scene, register

Floats: TypeAlias = NDArray[np.float64]
Boundary: TypeAlias = Literal["fixed", "positive", "any"]
"""Margin's β: equal to the margin as in theorem 2, or each anchor's best one of those above 0, or of all."""

MARGIN = 1.0
"""α; only ratios of distances to it matter."""

ENOUGH = 12
"""Points from which the easy-positive claims are asked."""

PLACES = 3
"""Of the search: enough for two classes, one of them in two modes."""

SEARCHED = ("triplet", "margin", "EPS triplet", "EPS margin")


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

    Args:
        distance: (n, n), between points.
        chances: (n, classes), the probability of each label at each point.
        margin: α.
        boundary: how β is chosen.
        easy: whether the nearest point with the anchor's label is its only positive.
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


Loss: TypeAlias = Callable[[Floats, Floats], float]

LOSSES: dict[str, Loss] = {
    "triplet": lambda d, c: triplet_loss(d, c, MARGIN),
    "margin": lambda d, c: margin_loss(d, c, MARGIN),
    "EPS triplet": lambda d, c: easy_triplet_loss(d, c, MARGIN),
    "EPS margin": lambda d, c: margin_loss(d, c, MARGIN, easy=True),
    "EPS margin, best β > 0": lambda d, c: margin_loss(d, c, MARGIN, "positive", easy=True),
    "EPS margin, best β": lambda d, c: margin_loss(d, c, MARGIN, "any", easy=True),
}


@register("noisy-labels")
@dataclasses.dataclass(frozen=True, kw_only=True)
class NoisyLabels(ProbeFunction):
    """Expected losses of the paper's two embeddings, one with collapsed classes, one with its first class in two modes.

    Figures are how much more the two modes cost, in per cent of the collapsed embedding: above 0 the loss prefers
    collapsed classes, below 0 two modes. `LOSS at N` for every number of points; `LOSS, least` and `LOSS, most` over
    those with 12 points or more. `LOSS, collapsed is best` is 1 where the cheapest of all embeddings of 12 points in
    the corners of a triangle with equal sides has every class in one corner, 0 where it has not; `... on a line` is
    the same for places 0, α and 2α, where two modes and a class cannot all be two margins apart.

    Args:
        classes: how many.
        p: probability that a label is true.
        points: numbers of points, each a multiple of `classes`.
        search: also look through all embeddings in a triangle and on a line.
    """

    classes: int = 2
    p: float = 0.8
    points: tuple[int, ...] = tuple(range(4, 49, 4))
    search: bool = False

    def __post_init__(self) -> None:
        if not 1 / self.classes < self.p < 1:
            raise RecipeError(f"noisy-labels: p must lie between 1/{self.classes} and 1, got {self.p:g}")
        if any(n % self.classes or n < 2 * self.classes for n in self.points):
            raise RecipeError(f"noisy-labels: points must be multiples of {self.classes}, two or more per class")

    def __call__(self, scene: Scene) -> ProbeResult:
        """Compute; nothing is random."""
        figures: dict[str, float | None] = {}
        series = {}
        for name, loss in LOSSES.items():
            gaps = {n: self.gap(name, loss, n) for n in self.points}
            figures |= {f"{name} at {n}": gap for n, gap in gaps.items()}
            enough = [gap for n, gap in gaps.items() if n >= ENOUGH]
            figures |= {f"{name}, least": min(enough), f"{name}, most": max(enough)} if enough else {}
            series[name] = [[n, gap] for n, gap in gaps.items()]
        if self.search:
            figures |= self.searched()
        return ProbeResult(figures=figures, series=series)

    def gap(self, name: str, loss: Loss, n: int) -> float:
        """How much more two modes cost than one, in per cent."""
        size = n // self.classes
        place = np.repeat(np.arange(self.classes), size)
        chances = label_chances(place, self.classes, self.p)
        modes = np.where(np.arange(n) < size // 2, self.classes, place)
        return 100 * (loss(_distances(name, modes), chances) / loss(_distances(name, place), chances) - 1)

    def searched(self) -> dict[str, float]:
        """For each loss, whether the cheapest embedding of 12 points has collapsed classes."""
        size = ENOUGH // self.classes
        chances = label_chances(np.repeat(np.arange(self.classes), size), self.classes, self.p)
        found = {}
        for line in (False, True):
            embeddings = _embeddings(self.classes, size, line)
            for name in SEARCHED:
                costs = [LOSSES[name](_distances(name, e.ravel(), line), chances) for e in embeddings]
                cheapest = embeddings[int(np.argmin(costs))]
                found[f"{name}, collapsed is best{' on a line' if line else ''}"] = float(
                    (cheapest == cheapest[:, :1]).all()
                )
        return found


def _distances(name: str, place: NDArray[np.int64], line: bool = False) -> Floats:
    """Of points in places: a margin from one to the next on a line; else all equally far apart.

    How far is what a loss's own theorem finds best for classes.
    """
    if line:
        steps: Floats = np.abs(np.subtract.outer(place, place)).astype(np.float64)
        return MARGIN * steps
    apart = 2 * MARGIN if "margin" in name else MARGIN
    return np.where(place[:, None] != place[None], apart, 0.0)


def _embeddings(classes: int, size: int, line: bool) -> list[NDArray[np.int64]]:
    """All ways to put the points of classes (rows) into places that differ in more than the names of either."""
    of_one_class = list(itertools.combinations_with_replacement(range(PLACES), size))
    different = {}
    for places in itertools.product(of_one_class, repeat=classes):
        contents = [tuple(row.count(place) for row in places) for place in range(PLACES)]
        key = min(contents, contents[::-1]) if line else sorted(contents)
        different[tuple(key)] = np.array(places, dtype=np.int64)
    return list(different.values())
