"""Exact nearest neighbours by euclidean distance, a block of queries and a block of the gallery at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import DataError
from holdfast.metrics.base import blocks
from holdfast.metrics.gallery import INDEX, WIDTH, Gallery, distance_of
from holdfast.sphere import distance, precise


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
        vectors, so that small ones keep their digits.
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
    for rows in blocks(len(queries), max(min(len(gallery), WIDTH), k * gallery.shape[1]), chunk):
        first = rows.start if exclude_self else None
        found[rows] = _nearest(searched, queries[rows], k, first) & INDEX
        found_distances[rows] = distance(queries[rows][:, None], gallery[found[rows]])
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
