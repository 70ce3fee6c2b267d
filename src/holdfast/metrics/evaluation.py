"""Every registered metric of a set, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.config import instantiate
from holdfast.errors import DataError
from holdfast.metric_info import MetricInfo
from holdfast.metrics.base import Array, EmbeddedSet, Metric, Value, plain, registry

RECALLS = (1, 2, 4, 5, 8, 10, 20, 100)
"""The k of R@k that the papers report on one dataset or another."""


@dataclass(frozen=True)
class Evaluation:
    """Values by key; what is undefined for the data is None in `values` and explained in `reasons`.

    Args:
        values: by key.
        reasons: why one is None.
        described: what each means and how it is shown.
    """

    values: dict[str, Value] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    described: dict[str, MetricInfo] = field(default_factory=dict)


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
    result = Evaluation()
    _measure(result, fine, settings, "")
    if coarse is not None:
        coarser = EmbeddedSet.of(embeddings, coarse, gallery, gallery_coarse, groups, gallery_groups)
        _measure(result, coarser, settings | {"clusters": None}, "coarse/")
    return result


def described() -> dict[str, MetricInfo]:
    """What the figures of every registered metric mean, as far as the metrics say, in the order they are shown."""
    return {key: info for metric in _metrics({"ks": RECALLS}) for key, info in metric.describe().items()}


def _metrics(settings: Mapping[str, Any]) -> list[Metric]:
    """Every registered metric with those settings that it has."""
    built: list[Metric] = [instantiate(Metric, name, provided=settings) for name in registry.names()]
    return sorted(built, key=lambda metric: metric.order)


def _measure(result: Evaluation, data: EmbeddedSet, settings: Mapping[str, Any], prefix: str) -> None:
    for metric in _metrics(settings):
        measured, known = metric.together(data), metric.describe()
        otherwise = MetricInfo((type(metric).__doc__ or "").strip().partition("\n")[0])
        for key, value in measured.items():
            info = known.get(key, otherwise)
            if prefix:  # figures of coarser labels are percentages on pages, and no columns of their own
                info = replace(info, shown="page" if info.percent and info.shown != "file" else "file")
            result.values[prefix + key], result.described[prefix + key] = plain(value), info
        result.reasons.update({prefix + key: reason for key, reason in measured.reasons.items()})
