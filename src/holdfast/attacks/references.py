"""What goals look at: a gallery of clean embeddings with their labels, and sums over all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Generator, Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from holdfast.errors import DataError
from holdfast.metrics.base import EmbeddedSet, blocks
from holdfast.metrics.neighbours import neighbours
from holdfast.mining import draw
from holdfast.mining.known import in_training
from holdfast.sphere import Mask, precise, squared_distances

Term: TypeAlias = Callable[[Tensor, slice], Tensor]
"""Embeddings and a block of the gallery → each embedding's part of the sum."""


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
        self._own = self.vectors if self.queries is None else self.queries
        given = labels, query_labels, groups, query_groups
        here = [None if values is None else values.to(self.device) for values in given]
        self._labels, self._query_labels, self._groups, self._query_groups = here
        self._check()
        self._own_labels = self._labels if queries is None else self._query_labels
        self._own_groups = self._groups if queries is None else self._query_groups

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

    def searched_by(self, queries: Tensor, labels: Tensor | None = None) -> References:
        """The same gallery for images that are not in it.

        Args:
            queries: their clean embeddings, of the length that the gallery's have.
            labels: their classes, or a boolean matrix (query × gallery) that says what is relevant.
        """
        relevance = labels is not None and labels.dtype == torch.bool
        return References(
            self.vectors,
            labels if relevance else self._labels,
            queries=queries,
            query_labels=None if relevance else labels,
            groups=self._groups,
            normalize=False,
        )

    def require_labels(self) -> None:
        """Refuse, before any work is done, what a goal would only miss when it measures."""
        if self.labels.dtype != torch.bool and self._own_labels is None:
            raise DataError("this goal compares labels; give References(..., query_labels=...) beside queries")

    def rows(self, rows: Tensor) -> Tensor:
        """Rows on this device, checked; those of a training step are its own."""
        count = len(self._own)
        if rows.ndim != 1 or rows.is_floating_point() or rows.dtype == torch.bool:
            raise DataError(f"rows must be a list of integers, got {rows.dtype} of shape {tuple(rows.shape)}")
        if len(rows) and not in_training() and not 0 <= int(rows.min()) <= int(rows.max()) < count:
            raise DataError(f"rows must lie between 0 and {count - 1}, got {int(rows.min())} to {int(rows.max())}")
        return rows.to(self.device, torch.int64)

    def clean(self, rows: Tensor) -> Tensor:
        """Clean embeddings of the attacked images."""
        return self._own[rows]

    def same(self, rows: Tensor, items: slice | Tensor = slice(None)) -> Mask:
        """Which gallery items share the label of the attacked images, own copies included."""
        labels = self.labels
        if labels.dtype == torch.bool:
            return labels[rows][:, items]
        self.require_labels()
        assert self._own_labels is not None
        return self._own_labels[rows][:, None] == labels[items][None, :]

    def itself(self, rows: Tensor, items: slice | Tensor = slice(None)) -> Mask:
        """Which gallery items are the attacked images' own clean copies."""
        columns = torch.arange(len(self), device=self.device)[items]
        if self.queries is not None:
            return torch.zeros(len(rows), len(columns), dtype=torch.bool, device=self.device)
        return rows[:, None] == columns[None, :]

    def ignored(self, rows: Tensor, items: slice | Tensor = slice(None)) -> Mask:
        """Items that are neither hit nor miss: own copies, and those of the same label and group."""
        own = self.itself(rows, items)
        if self._groups is None or self._own_groups is None:
            return own
        return own | (self.same(rows, items) & (self._own_groups[rows][:, None] == self._groups[items][None, :]))

    def positives(self, rows: Tensor, items: slice | Tensor = slice(None)) -> Mask:
        """Items of the same label, ignored ones left out."""
        return self.same(rows, items) & ~self.ignored(rows, items)

    def negatives(self, rows: Tensor, items: slice | Tensor = slice(None)) -> Mask:
        """Items of other labels."""
        return ~self.same(rows, items) & ~self.itself(rows, items)

    def embedded(self, vectors: Tensor, rows: Tensor, replaced: bool = False) -> EmbeddedSet:
        """Attacked images as queries for metrics, own copies and items of their label and group set aside.

        Args:
            vectors: where the images are.
            rows: which they are.
            replaced: they search each other instead of the clean gallery.
        """
        assert self._own_labels is not None
        labels, groups, searched = self._own_labels[rows], self._own_groups, self._groups
        if groups is None and self.queries is None and not replaced:  # then each is in a group with its own copy
            groups = searched = torch.arange(len(self), device=self.device)
        own = None if groups is None else groups[rows]
        if replaced:
            return EmbeddedSet.of(vectors, labels, groups=own)
        return EmbeddedSet.of(vectors, labels, self.vectors, self.labels, own, searched)

    def nearest(self, z: Tensor, rows: Tensor, k: int) -> Tensor:
        """The k nearest gallery items of each embedding, ignored ones skipped; fewer where the gallery has fewer.

        With groups, an image that has fewer than others repeats its last one.
        """
        k = min(k, len(self) - int(self.queries is None))
        if k < 1:
            raise DataError("a gallery of one image has nothing but the attacked image itself; give more references")
        return torch.cat([self._nearest(z[part], rows[part], k) for part in self.parts(rows)])

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

    def extreme(self, z: Tensor, counts: Callable[[slice], Mask], *, farthest: bool = False) -> tuple[Tensor, Mask]:
        """The nearest (or farthest) gallery item of each embedding among those that count, and whether any does.

        Args:
            z: embeddings.
            counts: a block of the gallery → which of its items count for each embedding.
            farthest: look for the farthest instead.
        """
        return self.extremes(z, lambda block: [counts(block)], [farthest])[0]

    @torch.no_grad()
    def extremes(
        self, z: Tensor, counts: Callable[[slice], Sequence[Mask]], farthest: Sequence[bool]
    ) -> list[tuple[Tensor, Mask]]:
        """The same for several masks at once: distances are worked out once.

        Args:
            z: embeddings.
            counts: a block of the gallery → which of its items count for each embedding, one mask per answer.
            farthest: for which of the answers.
        """
        found = [torch.zeros(len(z), dtype=torch.int64, device=self.device) for _ in farthest]
        best = [z.new_full((len(z),), torch.inf) for _ in farthest]
        for block in blocks(len(self), len(z)):
            squared = squared_distances(z, self.vectors[block].to(z.dtype))
            for turn, mask in enumerate(counts(block)):
                signed = -squared if farthest[turn] else squared
                value, index = signed.masked_fill(~mask, torch.inf).min(1)
                found[turn] = torch.where(value < best[turn], index + block.start, found[turn])
                best[turn] = torch.minimum(best[turn], value)
        return [(items, least.isfinite()) for items, least in zip(found, best, strict=True)]

    def draw(self, rows: Tensor, *, same: bool, generator: Generator | None) -> Tensor:
        """One item of the same label (own copy aside) or of another, uniformly; -1 where there is none."""
        found = []
        for part in self.parts(rows):
            allowed = self.positives(rows[part]) if same else self.negatives(rows[part])
            found.append(torch.where(allowed.any(1), draw.uniform(allowed, generator), -1))
        return torch.cat(found)

    def draw_any(self, count: int, generator: Generator | None) -> Tensor:
        """Items of the whole gallery, uniformly."""
        return draw.sample(torch.randint, len(self), (count,), device=self.device, generator=generator)

    def parts(self, rows: Tensor) -> list[slice]:
        """Blocks of rows small enough for a mask over the whole gallery."""
        return blocks(len(rows), len(self)) or [slice(0, 0)]

    def _nearest(self, z: Tensor, rows: Tensor, k: int) -> Tensor:
        ignored = self.ignored(rows)
        left = len(self) - ignored.sum(1, keepdim=True)
        fewest = int(left.min()) if len(left) else len(self)
        if fewest < 1:
            raise DataError("an attacked image shares label and group with the whole gallery; give more references")
        _, found = neighbours(z, self.vectors.to(precise(z).dtype), min(k + len(self) - fewest, len(self)))
        last = ignored.gather(1, found).to(torch.int8).argsort(dim=1, stable=True)
        places = torch.arange(k, device=self.device)[None, :].minimum(left - 1)
        return found.gather(1, last).gather(1, places)

    def _check(self) -> None:
        labels, own_labels, groups, own_groups = self._labels, self._query_labels, self._groups, self._query_groups
        dims, own_dims = self.vectors.shape[1], self._own.shape[1]
        if dims != own_dims:
            raise DataError(f"queries have {own_dims} dims and the gallery has {dims}; embed both with the same model")
        if own_labels is not None and self.queries is None:
            raise DataError("query_labels belong to queries; give both or neither")
        if (own_groups is not None) != (groups is not None and self.queries is not None):
            raise DataError("with queries, groups and query_groups belong together; give both or neither")
        if groups is not None and labels is None:
            raise DataError("groups say which items of the same label do not count; give labels beside them")
        queries, gallery = (len(self._own),), (len(self),)
        relevance = queries + gallery if labels is not None and labels.dtype == torch.bool else gallery
        _check_integers("labels", labels, relevance)
        _check_integers("query_labels", own_labels, queries)
        _check_integers("groups", groups, gallery)
        _check_integers("query_groups", own_groups, queries)


def _check_integers(name: str, values: Tensor | None, shape: tuple[int, ...]) -> None:
    if values is not None and (tuple(values.shape) != shape or values.is_floating_point()):
        raise DataError(f"{name} must be integers of shape {shape}, got {values.dtype} of shape {tuple(values.shape)}")


def _prepared(vectors: Tensor, normalize: bool) -> Tensor:
    vectors = precise(vectors.detach())
    if vectors.ndim != 2 or len(vectors) == 0:
        raise DataError(f"references must have shape (n, dim) with n of 1 or more, got {tuple(vectors.shape)}")
    with torch.inference_mode(False):  # vectors made inside it could not stand in a loss
        vectors = vectors.clone() if vectors.is_inference() else vectors
        return F.normalize(vectors, dim=1) if normalize else vectors


def gallery_sum(z: Tensor, items: int, term: Term) -> Tensor:
    """Σ over the gallery of `term`, one value per embedding, in memory that does not grow with the gallery.

    Row i of a term must depend on row i of `z` alone; then one backward pass per block, done at once, leaves nothing
    to remember but a gradient of the shape of `z`.
    """
    z = precise(z)
    cuts = blocks(items, len(z))
    if torch.is_grad_enabled() and z.requires_grad:
        total: Tensor = _GallerySum.apply(z, cuts, term)  # type: ignore[no-untyped-call]
        return total
    return torch.stack([term(z, cut) for cut in cuts]).sum(0)


class _GallerySum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, cuts: list[slice], term: Term) -> Tensor:
        total, gradient = z.new_zeros(len(z)), torch.zeros_like(z)
        for cut in cuts:
            with torch.enable_grad():
                leaf = z.detach().requires_grad_()
                part = term(leaf, cut)
                gradient += torch.autograd.grad(part.sum(), leaf)[0]
            total += part.detach()
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return upstream[:, None] * gradient, None, None
