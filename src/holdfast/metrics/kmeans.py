"""k-means without a second copy of all distances, the same on every machine."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.errors import DataError
from holdfast.metrics.base import blocks
from holdfast.sphere import precise

_SEEDING_ROUNDS = 64


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
        race = torch.empty(len(vectors)).exponential_(generator=generator).to(vectors)
        priority = closest / race
        priority[chosen] = -1
        count = min(max(1, k // _SEEDING_ROUNDS), k - len(chosen))
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
