"""Retrieval: how early the images of a query's class appear in its ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.errors import DataError
from holdfast.metric_info import MetricInfo, Shown, percentage
from holdfast.metrics.base import Array, EmbeddedSet, Metric, Values, register
from holdfast.metrics.ranks import match_ranks
from holdfast.processes import current_processes

SHOWN: dict[int, Shown] = {1: "headline", 5: "file", 20: "file", 100: "page"}
"""How prominent R@k is, for those k that are no column among others."""


def retrieval(
    embeddings: Array,
    labels: Array,
    ks: Sequence[int] = (1, 2, 4, 8),
    *,
    gallery: Array | None = None,
    gallery_labels: Array | None = None,
    groups: Array | None = None,
    gallery_groups: Array | None = None,
    averages: bool = True,
    chunk: int | None = None,
) -> Values:
    """R@k, mAP, mAP@R and mAP@C in percent, ranked by euclidean distance.

    With `r_1 < r_2 < …` the ranks of a query's P matches, each metric is the mean over queries of

        R@k   = [r_1 <= k]
        mAP   = 1/P Σ_i i / r_i
        mAP@R = 1/P Σ_{i: r_i <= P} i / r_i
        mAP@C = 1/n Σ_{i: r_i <= n} i / r_i,   n = P + 1, the class size with the query counted in it

    so that mAP@C stays below 100 for a perfect ranking. Without a gallery every image queries all others, itself
    excluded by index (an identical second image remains). Queries without a possible match are left out of the means.

    Args:
        embeddings: vectors of the queries, of any length.
        labels: their classes.
        ks: the k of R@k.
        gallery: vectors to search instead of the other queries.
        gallery_labels: their classes.
        groups: group of each query (its camera); gallery items of the query's class and group are ignored, neither
            hit nor miss.
        gallery_groups: group of each gallery vector.
        averages: also mAP, mAP@R and mAP@C; without them only each query's nearest match is ranked, in less time.
        chunk: queries per block; chosen from the size of the gallery when left out.

    Requirements: a class with two images, or with one in the queries and one in the gallery; otherwise every value is
        None. Equal distances are ordered by gallery index. Distances are compared in float32.
    Relations: `neighbours` returns the neighbours themselves; `clustering` needs no ranking.
    Reference: mAP@R: Musgrave et al., ECCV 2020; mAP@C: Roth et al., ICML 2020.
    """
    data = EmbeddedSet.of(embeddings, labels, gallery, gallery_labels, groups, gallery_groups)
    return Retrieval(tuple(ks), chunk, averages)(data)


@register("retrieval")
@dataclass
class Retrieval(Metric):
    """R@k, mAP, mAP@R and mAP@C; see `retrieval`.

    Args:
        ks: the k of R@k.
        chunk: queries per block.
        averages: also mAP, mAP@R and mAP@C.
    """

    order: ClassVar[int] = 0

    ks: tuple[int, ...] = (1, 2, 4, 8)
    chunk: int | None = None
    averages: bool = True

    def __post_init__(self) -> None:
        if any(k < 1 for k in self.ks):
            raise DataError(f"every k of R@k must be 1 or more, got {list(self.ks)}")
        if not self.ks and not self.averages:
            raise DataError("nothing to measure; give a k for R@k, or leave averages on")

    def describe(self) -> dict[str, MetricInfo]:
        """R@k of each k, and the averages."""
        among = {k: f"queries with an image of their class among the {k} nearest, %" for k in self.ks if k > 1}
        words = {1: "queries whose nearest image is of their class, %"} | among
        return {f"R@{k}": percentage(words[k], SHOWN.get(k, "table")) for k in self.ks} | {
            "mAP": percentage("all images of the class come before the others (mean average precision), %", "page"),
            "mAP@R": percentage("mAP as far down as the class has images, %", "headline"),
            "mAP@C": percentage("mAP@R with the query counted in its class, so that the best is below 100, %", "page"),
        }

    def __call__(self, data: EmbeddedSet) -> Values:
        """Measure the ranking of every query; several processes rank a shard of them each."""
        values = Values()
        for key, scores in self.per_query(data).items():
            answered = scores[~scores.isnan()]
            mean = 100 * float(answered.mean()) if len(answered) else None
            values.put(key, mean, "no query has a positive in the gallery")
        return values

    together = __call__

    @torch.no_grad()
    def per_query(self, data: EmbeddedSet) -> dict[str, Tensor]:
        """Each value for each query alone, between 0 and 1; NaN for a query that has no positive in the gallery."""
        keys = [*(f"R@{k}" for k in self.ks), *(("mAP", "mAP@R", "mAP@C") if self.averages else ())]
        # Each row is filled by one process at most, so adding changes no bit; the last column says whether one did.
        scores = torch.zeros(len(data.labels), len(keys) + 1, dtype=torch.float64, device=data.labels.device)
        within = None if self.averages else max(self.ks)
        for queries, ranks, counts in match_ranks(data, self.chunk, within):
            answerable = counts > 0
            found = self._scores(ranks[answerable], counts[answerable, None])
            scores[queries[answerable]] = torch.nn.functional.pad(found, (0, 1), value=1)
        *columns, answered = current_processes().add(scores).unbind(1)
        return {key: column.where(answered > 0, torch.nan) for key, column in zip(keys, columns, strict=True)}

    def _scores(self, ranks: Tensor, counts: Tensor) -> Tensor:
        """One row per query, one column per key."""
        columns = [(ranks[:, :1] <= k).any(1).double() for k in self.ks]
        if not self.averages:
            return torch.stack(columns, 1)
        position = torch.arange(1, ranks.shape[1] + 1, device=ranks.device)
        precision = torch.where(position <= counts, position / ranks.double(), 0)
        columns.append(precision.sum(1) / counts[:, 0])
        for size in (counts, counts + 1):
            columns.append(torch.where(ranks <= size, precision, 0).sum(1) / size[:, 0])
        return torch.stack(columns, 1)
