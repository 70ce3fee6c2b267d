"""What goals look at: clean embeddings with their labels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast.attacks import random
from holdfast.errors import DataError
from holdfast.metrics.base import blocks
from holdfast.metrics.neighbours import neighbours
from holdfast.mining import draw
from holdfast.sphere import Mask, precise, squared_distances


class References:
    """The clean gallery that attacked images are compared with.

    Attacked images are named by `rows`. Without `queries` these are rows of the gallery, and each attacked image has
    its own clean copy there; with `queries` (In-shop) they are rows of the queries, and there is no copy.

    Args:
        vectors: clean embeddings of the gallery, shape (n, dim); they stay on their device.
        labels: their classes as integers, or a boolean matrix (attacked image × gallery) that says what is relevant;
            may be left out for goals that need none.
        queries: clean embeddings of images that are not in the gallery but may be attacked.
        query_labels: their classes.
        groups: group of each gallery item (its camera); items of the attacked image's label and group are neither hit
            nor miss.
        query_groups: and of each query.
        normalize: scale to unit length, as attacks do with what the model returns.
    """

    def __init__(
        self,
        vectors: Tensor,
        labels: Tensor | None = None,
        *,
        queries: Tensor | None = None,
        query_labels: Tensor | None = None,
        groups: Tensor | None = None,
        query_groups: Tensor | None = None,
        normalize: bool = True,
    ) -> None:
        self.vectors = _prepared(vectors, normalize)
        self.queries = None if queries is None else _prepared(queries, normalize).to(self.vectors)
        self._labels = None if labels is None else labels.to(self.vectors.device)
        self._query_labels = None if query_labels is None else query_labels.to(self.vectors.device)
        self._groups = None if groups is None else groups.to(self.vectors.device)
        self._query_groups = None if query_groups is None else query_groups.to(self.vectors.device)
        self._check()

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def device(self) -> torch.device:
        """Where everything lives."""
        return self.vectors.device

    @property
    def labels(self) -> Tensor:
        """The gallery's classes, or the relevance matrix."""
        if self._labels is None:
            raise DataError("this goal compares labels; give References(vectors, labels)")
        return self._labels

    def require_labels(self) -> None:
        """Refuse, before any work is done, what a goal would only miss when it measures."""
        if self.labels.dtype != torch.bool and self.queries is not None and self._query_labels is None:
            raise DataError("this goal compares labels; give References(..., query_labels=...) beside queries")

    def rows(self, rows: Tensor) -> Tensor:
        """Rows on this device, checked."""
        count = len(self.vectors if self.queries is None else self.queries)
        if rows.ndim != 1 or rows.is_floating_point() or rows.dtype == torch.bool:
            raise DataError(f"rows must be a list of integers, got {rows.dtype} of shape {tuple(rows.shape)}")
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < count:
            raise DataError(f"rows must lie between 0 and {count - 1}, got {int(rows.min())} to {int(rows.max())}")
        return rows.to(self.device, torch.int64)

    def clean(self, rows: Tensor) -> Tensor:
        """Clean embeddings of the attacked images."""
        return (self.vectors if self.queries is None else self.queries)[rows]

    def same(self, rows: Tensor, items: slice | Tensor = slice(None)) -> Mask:
        """Which gallery items share the label of the attacked images, own copies included."""
        labels = self.labels
        if labels.dtype == torch.bool:
            return labels[rows][:, items]
        self.require_labels()
        own = labels if self._query_labels is None else self._query_labels
        return own[rows][:, None] == labels[items][None, :]

    def itself(self, rows: Tensor, items: slice | Tensor = slice(None)) -> Mask:
        """Which gallery items are the attacked images' own clean copies."""
        columns = torch.arange(len(self), device=self.device)[items]
        if self.queries is not None:
            return torch.zeros(len(rows), len(columns), dtype=torch.bool, device=self.device)
        return rows[:, None] == columns[None, :]

    def ignored(self, rows: Tensor, items: slice | Tensor = slice(None)) -> Mask:
        """Items that are neither hit nor miss: own copies, and those of the same label and group."""
        own = self.itself(rows, items)
        if self._groups is None:
            return own
        asked = self._groups if self._query_groups is None else self._query_groups
        return own | (self.same(rows, items) & (asked[rows][:, None] == self._groups[items][None, :]))

    def positives(self, rows: Tensor, items: slice | Tensor = slice(None)) -> Mask:
        """Items of the same label, ignored ones left out."""
        return self.same(rows, items) & ~self.ignored(rows, items)

    def negatives(self, rows: Tensor, items: slice | Tensor = slice(None)) -> Mask:
        """Items of other labels."""
        return ~self.same(rows, items) & ~self.itself(rows, items)

    def nearest(self, z: Tensor, rows: Tensor, k: int) -> Tensor:
        """The k nearest gallery items of each embedding, ignored ones skipped; fewer where the gallery has fewer.

        With groups, an image that has fewer than others repeats its last one.
        """
        owned = self.queries is None
        available = len(self) - int(owned)
        if available < 1:
            raise DataError("a gallery of one image has nothing but the attacked image itself; give more references")
        k = min(k, available)
        if self._groups is not None:
            return torch.cat([self._nearest_counted(z[part], rows[part], k) for part in self.parts(rows)])
        _, found = neighbours(z, self.vectors.to(precise(z).dtype), k + int(owned))
        if not owned:
            return found
        last = (found == rows[:, None]).to(torch.int8).argsort(dim=1, stable=True)
        return found.gather(1, last)[:, :k]

    def hits(self, z: Tensor, rows: Tensor) -> Tensor:
        """1 where the nearest item that counts shares the label, else 0; NaN without a positive. Its mean is R@1."""
        found = self.nearest(z, rows, 1)
        hits = []
        for part in self.parts(rows):
            positive = self.positives(rows[part])
            hit = positive.gather(1, found[part]).squeeze(1).to(self.vectors.dtype)
            hits.append(hit.masked_fill(~positive.any(1), torch.nan))
        return torch.cat(hits)

    def alike(self, items: Tensor, block: slice = slice(None)) -> Mask:
        """Which gallery items share the label of some gallery items."""
        labels = self.labels
        if labels.dtype != torch.bool:
            return labels[items][:, None] == labels[block][None, :]
        if self.queries is not None:
            raise DataError("a relevance matrix of queries says nothing of gallery items; give integer labels")
        return labels[items][:, block]

    def closest(self, rows: Tensor, allowed: Mask) -> Tensor:
        """The allowed gallery item nearest to each clean embedding."""
        return draw.nearest(squared_distances(self.clean(rows), self.vectors), allowed)

    @torch.no_grad()
    def extreme(self, z: Tensor, counts: Callable[[slice], Mask], *, farthest: bool = False) -> tuple[Tensor, Mask]:
        """The nearest (or farthest) gallery item of each embedding among those that count, and whether any does.

        Args:
            z: embeddings.
            counts: a block of the gallery → which of its items count for each embedding.
            farthest: look for the farthest instead.
        """
        sign = -1.0 if farthest else 1.0
        found = torch.zeros(len(z), dtype=torch.int64, device=self.device)
        best = z.new_full((len(z),), torch.inf)
        for block in blocks(len(self), len(z)):
            squared = sign * squared_distances(z, self.vectors[block].to(z.dtype))
            value, index = squared.masked_fill(~counts(block), torch.inf).min(1)
            found = torch.where(value < best, index + block.start, found)
            best = torch.minimum(best, value)
        return found, best.isfinite()

    def draw(self, rows: Tensor, *, same: bool, generator: Generator | None) -> Tensor:
        """One item of the same label (own copy aside) or of another, uniformly; -1 where there is none."""
        found = []
        for part in self.parts(rows):
            allowed = self.positives(rows[part]) if same else self.negatives(rows[part])
            found.append(torch.where(allowed.any(1), draw.uniform(allowed, generator), -1))
        return torch.cat(found)

    def draw_any(self, count: int, generator: Generator | None) -> Tensor:
        """Items of the whole gallery, uniformly."""
        return random.below(len(self), (count,), self.device, generator)

    def parts(self, rows: Tensor) -> list[slice]:
        """Blocks of rows small enough for a mask over the whole gallery."""
        return blocks(len(rows), len(self)) or [slice(0, 0)]

    def _nearest_counted(self, z: Tensor, rows: Tensor, k: int) -> Tensor:
        """The k nearest items that are not ignored, for one part of the rows."""
        ignored = self.ignored(rows)
        left = len(self) - ignored.sum(1, keepdim=True)
        if not len(rows):
            return rows.new_zeros(0, k)
        if int(left.min()) < 1:
            raise DataError("an attacked image shares label and group with the whole gallery; give more references")
        _, found = neighbours(z, self.vectors.to(precise(z).dtype), min(k + len(self) - int(left.min()), len(self)))
        last = ignored.gather(1, found).to(torch.int8).argsort(dim=1, stable=True)
        places = torch.arange(k, device=self.device)[None, :].minimum(left - 1)
        return found.gather(1, last).gather(1, places)

    def _check(self) -> None:
        count = len(self.vectors if self.queries is None else self.queries)
        labels, asked = self._labels, self._query_labels
        if asked is not None and (self.queries is None or asked.shape != (count,)):
            raise DataError("query_labels are one integer per row of queries; give both or neither")
        if labels is not None:
            wanted = (count, len(self)) if labels.dtype == torch.bool else (len(self),)
            if tuple(labels.shape) != wanted or labels.is_floating_point():
                raise DataError(f"labels must have shape {wanted}, got {labels.dtype} of shape {tuple(labels.shape)}")
        self._check_groups(count)

    def _check_groups(self, count: int) -> None:
        groups, asked = self._groups, self._query_groups
        if (asked is not None) != (groups is not None and self.queries is not None):
            raise DataError("with queries, groups and query_groups belong together; give both or neither")
        if groups is not None and self._labels is None:
            raise DataError("groups say which items of the same label do not count; give labels beside them")
        for name, values, wanted in (("groups", groups, len(self)), ("query_groups", asked, count)):
            if values is not None and (values.shape != (wanted,) or values.is_floating_point()):
                raise DataError(f"{name} must be {wanted} integers, got {values.dtype} of shape {tuple(values.shape)}")


def _prepared(vectors: Tensor, normalize: bool) -> Tensor:
    vectors = precise(vectors.detach())
    if vectors.ndim != 2 or len(vectors) == 0:
        raise DataError(f"references must have shape (n, dim) with n of 1 or more, got {tuple(vectors.shape)}")
    return F.normalize(vectors, dim=1) if normalize else vectors
