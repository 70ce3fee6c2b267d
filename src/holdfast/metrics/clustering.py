"""Clustering: whether k-means on the embeddings finds the classes."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from holdfast.errors import DataError
from holdfast.metric_info import MetricInfo, percentage
from holdfast.metrics.base import Array, EmbeddedSet, Metric, Values, register
from holdfast.metrics.kmeans import kmeans


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
class Clustering(Metric):
    """NMI and NMI+; see `clustering`. With a gallery, queries and gallery are clustered together.

    Args:
        factor: clusters per class of NMI+.
        clusters: number of clusters of NMI.
        seed: of the k-means starts.
    """

    order: ClassVar[int] = 10

    def __init__(self, factor: int = 10, clusters: int | None = None, seed: int = 0) -> None:
        for name, value in (("factor", factor), ("clusters", clusters)):
            if value is not None and value < 1:
                raise DataError(f"{name} must be 1 or more, got {value}")
        self.factor = factor
        self.clusters = clusters
        self.seed = seed

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
            if classes < 2:
                values.undefined(key, "all images are of one class")
            elif k >= len(vectors):
                values.undefined(key, f"{k} clusters asked of {len(vectors)} images")
            else:
                values[key] = 100 * nmi(labels, kmeans(vectors, k, seed=self.seed))
        return values


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
