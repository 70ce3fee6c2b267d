"""What a metric is given, what it returns, and the registry of the family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import DataError
from holdfast.metric_info import MetricInfo
from holdfast.processes import current_processes
from holdfast.registry import Registry
from holdfast.sphere import precise

Value: TypeAlias = float | bool | None
Array: TypeAlias = Tensor | NDArray[Any] | Sequence[Any]
"""What a user may pass for a tensor."""

BLOCK = 2**22
"""Numbers in one block of pairs: small enough to stay cheap beside the embeddings, large enough to keep cores busy."""


def blocks(rows: int, columns: int, chunk: int | None = None) -> list[slice]:
    """Cut rows that need `columns` numbers each into blocks of about `BLOCK` numbers, or of `chunk` rows."""
    if chunk is not None and chunk < 1:
        raise DataError(f"chunk must be 1 or more, got {chunk}; leave it out to have it chosen")
    size = chunk or max(1, BLOCK // max(columns, 1))
    return [slice(start, start + size) for start in range(0, rows, size)]


def is_unit(vectors: Tensor) -> bool:
    """Whether all vectors have unit length, as far as half precision can tell."""
    return bool(((vectors.norm(dim=1) - 1).abs() < 1e-2).all())


class Values(dict[str, Value]):
    """Metric values by key; an undefined one is None, with the reason beside it in `reasons`."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: dict[str, str] = {}

    def put(self, key: str, value: Value, otherwise: str) -> None:
        """Record a value, or the reason why there is none."""
        self[key] = value
        if value is None:
            self.reasons[key] = otherwise

    def undefined(self, key: str, reason: str) -> None:
        """Record that a metric has no value for this data."""
        self.put(key, None, reason)


@dataclass(frozen=True)
class EmbeddedSet:
    """Embeddings with labels, ready to be measured; `of` builds one from what a user passes.

    Args:
        embeddings: vectors of the queries, or of all images where there is no gallery.
        labels: their classes.
        gallery: vectors to search, where they are not the queries themselves (In-shop).
        gallery_labels: their classes.
        groups: group of each query (its camera); matches of the same class and group do not count.
        gallery_groups: group of each gallery vector.
    """

    embeddings: Tensor
    labels: Tensor
    gallery: Tensor | None = None
    gallery_labels: Tensor | None = None
    groups: Tensor | None = None
    gallery_groups: Tensor | None = None

    @classmethod
    def of(
        cls,
        embeddings: Array,
        labels: Array,
        gallery: Array | None = None,
        gallery_labels: Array | None = None,
        groups: Array | None = None,
        gallery_groups: Array | None = None,
    ) -> EmbeddedSet:
        """Check what belongs together, widen half precision and bring everything to the device of the embeddings."""
        if (gallery is None) != (gallery_labels is None):
            raise DataError("a gallery and gallery_labels belong together; give both or neither")
        if (groups is not None and gallery is not None) != (gallery_groups is not None):
            raise DataError("with a gallery, groups and gallery_groups belong together; give both or neither")
        vectors = _vectors("embeddings", embeddings)
        classes = _integers("labels", labels, vectors)
        own_groups = None if groups is None else _integers("groups", groups, vectors)
        if gallery is None or gallery_labels is None:
            return cls(vectors, classes, groups=own_groups)
        searched = _vectors("gallery", gallery).to(vectors)
        if searched.shape[1] != vectors.shape[1]:
            dims = f"{vectors.shape[1]} and {searched.shape[1]}"
            raise DataError(f"embeddings and gallery have {dims} dims; embed both with one model")
        searched_classes = _integers("gallery_labels", gallery_labels, searched)
        searched_groups = None if gallery_groups is None else _integers("gallery_groups", gallery_groups, searched)
        return cls(vectors, classes, searched, searched_classes, own_groups, searched_groups)

    def everything(self) -> tuple[Tensor, Tensor]:
        """Vectors and labels of all images, queries and gallery together."""
        if self.gallery is None or self.gallery_labels is None:
            return self.embeddings, self.labels
        return torch.cat([self.embeddings, self.gallery]), torch.cat([self.labels, self.gallery_labels])


def _tensor(name: str, values: Array) -> Tensor:
    if isinstance(values, Tensor):
        return values
    try:
        # torch shares memory with arrays, but only with writeable ones whose strides are positive.
        return torch.as_tensor(np.require(values, requirements=["C", "W"]))
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"{name} must be a tensor, an array or a list of numbers, all rows of one length") from None


def _vectors(name: str, values: Array) -> Tensor:
    vectors = _tensor(name, values)
    if vectors.ndim != 2 or len(vectors) == 0:
        raise DataError(f"{name} must have shape (n, dim) with n of 1 or more, got {tuple(vectors.shape)}")
    vectors = precise(vectors.detach())
    # The extremes of what holds NaN are NaN, and they are found in a fraction of the time of asking each number.
    extremes = [end for part in blocks(*vectors.shape) if vectors.shape[1] for end in vectors[part].aminmax()]
    if extremes and not bool(torch.stack(extremes).isfinite().all()):
        raise DataError(f"{name} contain NaN or inf; check the model that made them")
    return vectors


def _integers(name: str, given: Array, vectors: Tensor) -> Tensor:
    """One integer for each vector, beside them."""
    values, count = _tensor(name, given), len(vectors)
    if values.shape != (count,) or values.is_floating_point():
        raise DataError(f"{name} must be {count} integers, got {values.dtype} of shape {tuple(values.shape)}")
    return values.to(vectors.device, torch.int64)


class Metric(ABC):
    """A family of metrics, with its settings; calling it measures a set.

    `describe` says what its figures mean and how tables and pages show them; nothing else needs to know of a metric.
    """

    order: ClassVar[int] = 100
    """Its place among the metrics; those of holdfast itself come first."""

    def describe(self) -> dict[str, MetricInfo]:
        """What its figures mean, by key; those that are left out are shown with the first line of the class."""
        return {}

    @abstractmethod
    def __call__(self, data: EmbeddedSet) -> Values:
        """Measure a set of embeddings."""

    def together(self, data: EmbeddedSet) -> Values:
        """Measure a set that every process has; all get the values.

        Here the main process measures and tells the others. A metric whose work can be sharded does so instead.
        """
        processes = current_processes()
        if not processes.several:
            return self(data)

        def measured() -> tuple[dict[str, Value], dict[str, str]]:
            values = self(data)
            return {key: plain(value) for key, value in values.items()}, values.reasons

        values = Values()
        told, values.reasons = processes.tell(measured)
        values.update(told)
        return values


def plain(value: Any) -> Any:
    """A value as JSON carries it; a metric of a user's may give numbers of other kinds."""
    return value.item() if isinstance(value, (np.generic, Tensor)) else value


registry: Registry[Metric] = Registry("metric", Metric, "holdfast.metrics")
register = registry.register
