"""Clustering: whether k-means on the embeddings finds the classes.

k-means holds no second copy of all distances and gives the same answer on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from holdfast.errors import DataError, plural
from holdfast.metric_info import MetricInfo, percentage
from holdfast.metrics.base import Array, EmbeddedSet, Metric, Values, blocks, register
from holdfast.sphere import precise

SEEDING_ROUNDS = 64
"""About how many draws k-means takes its starts in."""


def clustering(
    embeddings: Array, labels: Array, *, factor: int = 10, clusters: int | None = None, seed: int = 0
) -> Values:
    """NMI and NMI+ in percent: mutual information of classes and k-means clusters, over the mean of their entropies.

    NMI = 2 I(classes; clusters) / (H(classes) + H(clusters))

    Args:
        embeddings: vectors of shape (n, dim).
        labels: their classes.
        factor: NMI+ makes this many clusters per class (30 on Omniglot), and so forgives a class of several clumps.
        clusters: number of clusters for NMI; by default the number of classes in `labels`. Published tables of HM and
            Roth use the number of training classes.
        seed: of the k-means starts.

    Requirements: two classes; fewer clusters than images, otherwise the value is None: clusters of one image each say
        nothing about an embedding.
    Relations: `retrieval` measures neighbourhoods, which tolerate classes of several clumps.
    Reference: NMI+: Levi et al., ICCV 2021.
    """
    return Clustering(factor, clusters, seed)(EmbeddedSet.of(embeddings, labels))


@register("clustering")
@dataclass
class Clustering(Metric):
    """NMI and NMI+; see `clustering`. With a gallery, queries and gallery are clustered together.

    Args:
        factor: clusters per class of NMI+.
        clusters: number of clusters of NMI.
        seed: of the k-means starts.
    """

    order: ClassVar[int] = 10

    factor: int = 10
    clusters: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("factor", self.factor), ("clusters", self.clusters)):
            if value is not None and value < 1:
                raise DataError(f"{name} must be 1 or more, got {value}")

    def describe(self) -> dict[str, MetricInfo]:
        """NMI and NMI+."""
        return {
            "NMI": percentage("how well clusters match classes, %", "headline"),
            "NMI+": percentage("NMI with several clusters per class, which forgives several clumps, %", "page"),
        }

    def __call__(self, data: EmbeddedSet) -> Values:
        """Cluster the set once per key."""
        vectors, labels = data.everything()
        classes = len(torch.unique(labels))
        values = Values()
        for key, k in (("NMI", self.clusters or classes), ("NMI+", self.factor * classes)):
            if why := unclustered(labels, k):
                values.undefined(key, why)
            else:
                values[key] = 100 * nmi(labels, kmeans(vectors, k, seed=self.seed))
        return values


def unclustered(labels: Tensor, clusters: int) -> str | None:
    """Why a clustering of images says nothing about their classes; None if it does."""
    if len(torch.unique(labels)) < 2:
        return "all images are of one class"
    if clusters >= len(labels):
        return f"{plural(clusters, 'cluster')} asked of {plural(len(labels), 'image')}"
    return None


def nmi(a: Tensor, b: Tensor) -> float:
    """Normalised mutual information of two labellings, between 0 and 1; 1 when neither distinguishes anything."""
    a, b = (torch.unique(x, return_inverse=True)[1] for x in (a, b))
    pairs = torch.unique(a * (int(b.max()) + 1) + b, return_counts=True)[1]
    entropies = _entropy(a.bincount()) + _entropy(b.bincount())
    if entropies == 0:
        return 1.0
    return max(0.0, 2 * (entropies - _entropy(pairs)) / entropies)


def _entropy(counts: Tensor) -> float:
    """In nats; every count is positive."""
    return float(torch.special.entr(counts.double() / counts.sum()).sum())


@torch.no_grad()
def kmeans(embeddings: Tensor, k: int, *, seed: int, iterations: int = 20) -> Tensor:
    """Cluster of each vector, by Lloyd's algorithm from k-means++ starts.

    Starting points are drawn one after another in proportion to the squared distance to the nearest one so far; from
    128 clusters on, several at once, so that seeding costs about as much as one iteration. A cluster that runs empty
    restarts at the vector worst served by its centre.

    Args:
        embeddings: vectors of shape (n, dim).
        k: number of clusters, at most n.
        seed: of the random starts; one seed gives one answer.
        iterations: at most this many; fewer when no vector changes its cluster.
    """
    vectors = precise(embeddings)
    if not 1 <= k <= len(vectors):
        raise DataError(f"cannot make {k} clusters of {len(vectors)} vectors; choose between 1 and {len(vectors)}")
    if iterations < 1:
        raise DataError(f"k-means needs 1 iteration or more, got {iterations}")
    squares = vectors.square().sum(1)
    centres = _starts(vectors, squares, k, torch.Generator().manual_seed(seed))
    clusters = torch.full((len(vectors),), -1, device=vectors.device)
    for _ in range(iterations):
        squared, nearest = _nearest(vectors, squares, centres)
        if torch.equal(nearest, clusters):
            break
        clusters = nearest
        centres = _means(vectors, clusters, squared, k)
    return clusters


def _starts(vectors: Tensor, squares: Tensor, k: int, generator: Generator) -> Tensor:
    chosen = torch.randint(len(vectors), (1,), generator=generator).to(vectors.device)
    closest = torch.full((len(vectors),), torch.inf, dtype=vectors.dtype, device=vectors.device)
    latest = chosen
    while len(chosen) < k:
        closest = torch.minimum(closest, _nearest(vectors, squares, vectors[latest])[0])
        closest[latest] = 0
        # Weights over exponential draws: the largest are a sample without replacement in proportion to the weights,
        # and vectors that coincide with a start come last instead of being impossible to draw.
        race = torch.empty(len(vectors), dtype=torch.float32).exponential_(generator=generator).to(vectors)
        priority = closest / race
        priority[chosen] = -1
        count = min(max(1, k // SEEDING_ROUNDS), k - len(chosen))
        latest = priority.topk(count).indices
        chosen = torch.cat([chosen, latest])
    return vectors[chosen]


def _nearest(vectors: Tensor, squares: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distance to the nearest centre and which it is."""
    half_squares = centres.square().sum(1) / 2
    # Results have their place before the loop: allocated block by block between large temporaries, they would keep the
    # memory of those from being used again.
    costs, nearest = torch.empty_like(squares), torch.empty_like(squares, dtype=torch.int64)
    with torch.autocast(vectors.device.type, enabled=False):
        for rows in blocks(len(vectors), len(centres)):
            costs[rows], nearest[rows] = torch.addmm(half_squares, vectors[rows], centres.T, alpha=-1).min(1)
    return (2 * costs + squares).clamp_min(0), nearest


def _means(vectors: Tensor, clusters: Tensor, squared: Tensor, k: int) -> Tensor:
    sizes = torch.bincount(clusters, minlength=k)
    # Sums over sorted runs are added in a fixed order, also on a GPU, where scattered additions are not.
    grouped = vectors[clusters.argsort(stable=True)]
    means = torch.segment_reduce(grouped, "sum", lengths=sizes, axis=0, initial=0) / sizes.clamp_min(1)[:, None]
    empty = (sizes == 0).nonzero()[:, 0]
    means[empty] = vectors[squared.argsort(descending=True, stable=True)[: len(empty)]]
    return means
