"""Exact nearest neighbours by euclidean distance, a block of queries and a block of the gallery at a time.

Equal distances are ordered by gallery index. To make that rule hold everywhere at no extra cost, a distance and its
gallery index are packed into one integer: the bits of a non-negative float32 sort like the number itself, so they fill
the upper half and the index the lower. Such keys are unique, whatever sorts them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from holdfast.errors import DataError
from holdfast.metrics import base
from holdfast.sphere import distance, precise

INDEX = 2**32 - 1
"""The part of a key that holds the gallery index."""

LAST = torch.iinfo(torch.int64).max
"""A key behind all others."""

TILE = 2**20
"""Distances at a time on a CPU: enough for a product at full speed, few enough to be still in the cache when read."""

WIDTH = 8192
"""Gallery items that a query is counted for when queries are cut into blocks: that makes a few hundred in each."""


class Gallery:
    """Vectors to be ranked, with what every block of queries needs of them."""

    def __init__(self, vectors: Tensor) -> None:
        self.vectors = vectors
        self._half_squares = _half_squares(vectors)
        self._index = torch.arange(len(vectors), device=vectors.device)

    def __len__(self) -> int:
        return len(self.vectors)

    def half_squared_distances(self, queries: Tensor, items: slice | Tensor = slice(None)) -> Tensor:
        """Half the squared distance of every query to every item, in float32 and never negative."""
        return self._distances(queries, _half_squares(queries)[:, None], items)

    def tiles(self, queries: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Half squared distances to one part of the gallery after another; each overwrites the one before."""
        own, cuts = _half_squares(queries)[:, None], self.cuts(len(queries))
        # Fresh memory for every large tile took up to nine tenths of the time of the product again.
        room = queries.new_empty(len(queries) * cuts[0].stop)
        for cut in cuts:
            out = room[: len(queries) * (cut.stop - cut.start)].view(len(queries), -1)
            yield cut, self._distances(queries, own, cut, out)

    def _distances(self, queries: Tensor, own: Tensor, items: slice | Tensor, out: Tensor | None = None) -> Tensor:
        halves = torch.add(self._half_squares[items], own, out=out)
        with torch.autocast(queries.device.type, enabled=False):
            halves.addmm_(queries, self.vectors[items].T, alpha=-1)
        return halves.clamp_min_(0).float()

    def keys(self, distances: Tensor, items: slice = slice(None)) -> Tensor:
        """Unique integers that sort by distance, then by gallery index."""
        return distances.view(torch.int32).to(torch.int64).bitwise_left_shift_(32).bitwise_or_(self._index[items])

    def cuts(self, rows: int) -> list[slice]:
        """The gallery in parts that make one tile with so many queries; a GPU wants larger ones than a cache holds."""
        size = min(base.BLOCK, TILE) if self.vectors.device.type == "cpu" else base.BLOCK
        width = max(1, size // max(rows, 1))
        return [slice(start, min(start + width, len(self))) for start in range(0, len(self), width)]


def _half_squares(vectors: Tensor) -> Tensor:
    parts = base.blocks(len(vectors), vectors.shape[1])  # the squares of all would take as much room as the vectors
    return torch.cat([vectors[part].square().sum(1) for part in parts]) / 2


def distance_of(keys: Tensor) -> Tensor:
    """The float32 distance inside each key; NaN for `LAST`."""
    return keys.bitwise_right_shift(32).to(torch.int32).view(torch.float32)


@torch.no_grad()
def neighbours(
    queries: Tensor, gallery: Tensor, k: int, *, exclude_self: bool = False, chunk: int | None = None
) -> tuple[Tensor, Tensor]:
    """The k nearest gallery vectors of each query, exactly, without ever holding all pairs.

    Args:
        queries: vectors of shape (n, dim).
        gallery: vectors of shape (m, dim) on the same device.
        k: how many to return, nearest first; equal distances by gallery index.
        exclude_self: query i never finds gallery item i (its own, perhaps unaltered, copy).
        chunk: queries per block; chosen from the size of the gallery when left out.

    Returns:
        Distances and gallery indices, both of shape (n, k). Distances are computed from the difference of the
        vectors, so that small ones keep their digits, and order those found. Which are found is decided by products in
        float32: of vectors many times as far from the origin as from each other, some that are as near may be missing.
    """
    queries, gallery = precise(queries), precise(gallery)
    if exclude_self and len(queries) != len(gallery):
        raise DataError(f"exclude_self pairs query i with item i, but there are {len(queries)} and {len(gallery)}")
    available = len(gallery) - int(exclude_self)
    if not 1 <= k <= available:
        raise DataError(f"cannot return {k} neighbours from {available}; choose k between 1 and {available}")
    searched = Gallery(gallery)
    found = torch.empty(len(queries), k, dtype=torch.int64, device=queries.device)
    found_distances = torch.empty(len(queries), k, dtype=queries.dtype, device=queries.device)
    for rows in base.blocks(len(queries), max(min(len(gallery), WIDTH), k * gallery.shape[1]), chunk):
        first = rows.start if exclude_self else None
        nearest = (_nearest(searched, queries[rows], k, first) & INDEX).sort(1).values
        apart, order = distance(queries[rows][:, None], gallery[nearest]).sort(dim=1, stable=True)
        found_distances[rows], found[rows] = apart, nearest.gather(1, order)
    return found_distances, found


def _nearest(gallery: Gallery, queries: Tensor, k: int, first: int | None) -> Tensor:
    """Keys of the k nearest items of each query; the i-th query is item `first + i` and does not find itself."""
    best: Tensor | None = None
    for items, halves in gallery.tiles(queries):
        if first is not None:
            _hide_itself(halves, first, items)
        if best is None or best.shape[1] < k:
            keys = gallery.keys(halves, items)
            keys = keys if best is None else torch.cat([best, keys], 1)
            best = keys.topk(min(k, keys.shape[1]), largest=False).values
        else:
            _improve(best, halves, gallery, items)
    assert best is not None
    return best


def _improve(best: Tensor, halves: Tensor, gallery: Gallery, items: slice) -> None:
    """Let a block's items take places among the best, in place.

    On a CPU, only queries for which the block has something nearer than their last place are looked at; that becomes
    rare as the search goes on. A device would have to wait for the answer, and ranks them all.
    """
    rows: Tensor | slice = slice(None)
    if halves.device.type == "cpu":
        # Not "<=": a distance that is NaN must not hide the block's others.
        rows = (~(halves.amin(1) > distance_of(best[:, -1]))).nonzero()[:, 0]
    keys = torch.cat([best[rows], gallery.keys(halves[rows], items)], 1)
    best[rows] = keys.topk(best.shape[1], largest=False).values


def _hide_itself(halves: Tensor, first: int, items: slice) -> None:
    """Put the items that are the queries themselves infinitely far away."""
    start, stop = max(first, items.start), min(first + len(halves), items.stop)
    if start < stop:
        own = halves[start - first : stop - first, start - items.start : stop - items.start]
        own.fill_diagonal_(torch.inf)
