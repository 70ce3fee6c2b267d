"""Figures with confidence intervals, from measurements of single images."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from holdfast.audit.sampling import mean_interval, median_interval, share_interval, statistic_interval
from holdfast.audit.subject import Subject
from holdfast.metrics import Values, kmeans, nmi
from holdfast.metrics.clustering import unclustered
from holdfast.metrics.geometry import class_spread
from holdfast.metrics.retrieval import Retrieval

NO_POSITIVE = "no attacked image has a positive in the gallery"


class Figures:
    """What an audit reports: value and interval by key, None with a reason where undefined, curves in `extra`.

    Args:
        seed: of the bootstrap.
        batch: average batch means of this many images instead of images, as published scores do.
    """

    def __init__(self, seed: int, batch: int | None = None) -> None:
        self.values = Values()
        self.reasons = self.values.reasons
        self.intervals: dict[str, tuple[float | None, float | None]] = {}
        self.extra: dict[str, Any] = {}
        self._seed = seed
        self._batch = batch

    def mean(self, key: str, per_image: Tensor, scale: float = 1.0, otherwise: str = NO_POSITIVE) -> None:
        """A mean over images, or the share of those that have what others lack, in percent.

        Args:
            key: of the figure.
            per_image: NaN marks images that do not count.
            scale: of the figure.
            otherwise: why no image counts, where none does.
        """
        values = scale * per_image[~per_image.isnan()].double()
        if not len(values):
            self.values.undefined(key, otherwise)
            return
        self.values[key] = self._mean(values)
        if bool(((values == 0) | (values == 100)).all()):
            low, high = share_interval(values / 100)
            self.intervals[key] = 100 * low, 100 * high
        else:
            self.intervals[key] = mean_interval(values, self._seed)

    def _mean(self, values: Tensor) -> float:
        """Of images, or of batches of them."""
        return float(torch.stack([part.mean() for part in torch.split(values, self._batch or len(values))]).mean())

    def statistic(self, key: str, statistic: Callable[[Tensor], float], count: int) -> None:
        """Any statistic of the set of images."""
        self.values[key] = statistic(torch.arange(count))
        self.intervals[key] = statistic_interval(statistic, count, self._seed)

    def median(self, key: str, per_image: Tensor, otherwise: str) -> None:
        """A median over images, of which some may be infinite; None, with the reason, where it is not finite."""
        values = per_image[~per_image.isnan()].double()
        middle = float(values.median()) if len(values) else math.nan
        if not math.isfinite(middle):
            self.values.undefined(key, otherwise if len(values) else NO_POSITIVE)
            return
        self.values[key] = middle
        low, high = median_interval(values, self._seed)
        self.intervals[key] = (low if math.isfinite(low) else None, high if math.isfinite(high) else None)

    def clustering(self, key: str, vectors: Tensor, labels: Tensor) -> None:
        """NMI in percent; the interval resamples images of one fixed clustering."""
        vectors, labels = vectors.cpu(), labels.cpu()
        number = len(torch.unique(labels))
        if why := unclustered(labels, number):
            self.values.undefined(key, why)
            return
        clusters = kmeans(vectors, number, seed=self._seed)
        self.statistic(key, lambda rows: 100 * nmi(labels[rows], clusters[rows]), len(labels))

    def spread_ratio(self, key: str, vectors: Tensor, labels: Tensor) -> None:
        """π_ratio: distance within classes over distance between them."""
        vectors, labels = vectors.cpu(), labels.cpu()
        found = class_spread(vectors, labels)
        if found["pi_ratio"] is None:
            self.values.undefined(key, found.reasons["pi_ratio"])
            return

        def ratio(rows: Tensor) -> float:
            value = class_spread(vectors[rows], labels[rows])["pi_ratio"]
            return math.nan if value is None else float(value)

        self.statistic(key, ratio, len(labels))

    def retrieval(self, keys: tuple[str, ...], subject: Subject, vectors: Tensor, mode: str, prefix: str = "") -> None:
        """R@k and mAP figures of the attacked images as some vectors."""
        ks = tuple(int(key.removeprefix("R@")) for key in keys if key.startswith("R@"))
        scores = Retrieval(ks).per_query(subject.references.embedded(vectors, subject.rows, mode == "replaced"))
        for key in keys:
            self.mean(prefix + key, scores[key].cpu(), scale=100)

    def clean(self, subject: Subject, keys: tuple[str, ...] = ("R@1",)) -> None:
        """R@1 and others of the clean images, as they search the gallery."""
        self.retrieval(keys, subject, subject.references.clean(subject.rows), "fixed")


def stacked(measured: dict[str, Tensor], subject: Subject) -> Tensor:
    """The attacked vectors of a part, on the audit's device."""
    return torch.as_tensor(measured["vectors"]).to(subject.references.device)
