"""Every registered metric of a set, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.config import instantiate
from holdfast.errors import DataError
from holdfast.metrics.base import Array, EmbeddedSet, Metric, Value, registry


@dataclass(frozen=True)
class Evaluation:
    """Values by key; what is undefined for the data is None in `values` and explained in `reasons`."""

    values: dict[str, Value]
    reasons: dict[str, str]


def evaluate(
    embeddings: Array,
    labels: Array,
    *,
    coarse: Array | None = None,
    gallery: Array | None = None,
    gallery_labels: Array | None = None,
    gallery_coarse: Array | None = None,
    groups: Array | None = None,
    gallery_groups: Array | None = None,
    ks: Sequence[int] = (1, 2, 4, 8),
    clusters: int | None = None,
    factor: int = 10,
    seed: int = 0,
) -> Evaluation:
    """All metrics of a set of embeddings: `retrieval`, `clustering`, `geometry`, `hardness` and any added ones.

    A registered metric receives those of `ks`, `clusters`, `factor` and `seed` that its settings have.

    Args:
        embeddings: vectors of the queries, or of all images where there is no gallery.
        labels: their classes.
        coarse: classes of a second, coarser labelling; its metrics have keys that begin with `coarse/`.
        gallery: vectors to search; retrieval ranks it, the other metrics measure queries and gallery together.
        gallery_labels: their classes.
        gallery_coarse: their coarse classes.
        groups: group of each query (its camera); matches of the same class and group do not count.
        gallery_groups: group of each gallery vector.
        ks: the k of R@k.
        clusters: number of clusters of NMI (published tables: the number of training classes); fine labels only.
        factor: clusters per class of NMI+.
        seed: of everything random.
    """
    if (coarse is not None and gallery is not None) != (gallery_coarse is not None):
        raise DataError("with a gallery, coarse and gallery_coarse belong together; give both or neither")
    settings: dict[str, Any] = {"ks": tuple(ks), "clusters": clusters, "factor": factor, "seed": seed}
    fine = EmbeddedSet.of(embeddings, labels, gallery, gallery_labels, groups, gallery_groups)
    result = Evaluation({}, {})
    _measure(result, fine, settings, "")
    if coarse is not None:
        coarser = EmbeddedSet.of(embeddings, coarse, gallery, gallery_coarse, groups, gallery_groups)
        _measure(result, coarser, settings | {"clusters": None}, "coarse/")
    return result


def _measure(result: Evaluation, data: EmbeddedSet, settings: Mapping[str, Any], prefix: str) -> None:
    for name in registry.names():
        metric: Metric = instantiate(Metric, name, provided=settings)
        measured = metric.together(data)
        result.values.update({prefix + key: value for key, value in measured.items()})
        result.reasons.update({prefix + key: reason for key, reason in measured.reasons.items()})
