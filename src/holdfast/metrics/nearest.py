"""Exact ranking by euclidean distance, a block of queries at a time.

Equal distances are ordered by gallery index. To make that rule hold everywhere at no extra cost, a distance and its
gallery index are packed into one integer: the bits of a non-negative float32 sort like the number itself, so they fill
the upper half and the index the lower. Such keys are unique, whatever sorts them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from holdfast.errors import DataError
from holdfast.metrics.base import EmbeddedSet, blocks
from holdfast.sphere import distance, precise

_INDEX = 2**32 - 1
_LAST = torch.iinfo(torch.int64).max


class _Gallery:
    """Vectors to be ranked, with what every block of queries needs of them."""

    def __init__(self, vectors: Tensor) -> None:
        self.vectors = vectors
        self._half_squares = vectors.square().sum(1) / 2
        self._index = torch.arange(len(vectors), device=vectors.device)

    def half_squared_distances(self, queries: Tensor) -> Tensor:
        """Half the squared distance of every query to every item, in float32 and never negative."""
        with torch.autocast(queries.device.type, enabled=False):
            halves = torch.addmm(self._half_squares, queries, self.vectors.T, alpha=-1)
        return halves.add_(queries.square().sum(1, keepdim=True) / 2).clamp_min_(0).float()

    def keys(self, distances: Tensor) -> Tensor:
        """Unique integers that sort by distance, then by gallery index."""
        return distances.view(torch.int32).to(torch.int64).bitwise_left_shift_(32).bitwise_or_(self._index)


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
    searched = _Gallery(gallery)
    found = torch.empty(len(queries), k, dtype=torch.int64, device=queries.device)
    found_distances = torch.empty(len(queries), k, dtype=queries.dtype, device=queries.device)
    for block in blocks(len(queries), max(len(gallery), k * gallery.shape[1]), chunk):
        halves = searched.half_squared_distances(queries[block])
        if exclude_self:
            halves[:, block].fill_diagonal_(torch.inf)
        found[block] = searched.keys(halves).topk(k, largest=False).values & _INDEX
        found_distances[block] = distance(queries[block][:, None], gallery[found[block]])
    return found_distances, found


def match_ranks(data: EmbeddedSet, chunk: int | None = None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Ranks of each query's matches in its ordering of the gallery, for one block of queries after another.

    Only the ranks of the matches matter to R@k and mAP. A row of keys is sorted without its indices, and the few keys
    of the matches are looked up in it. Blocks hold queries with similar numbers of matches, not in their given order.

    Yields:
        queries: which queries the block holds.
        ranks: shape (block, width), ascending from 1 in each row, padded at the end with m + 1.
        counts: how many matches each row has.
    """
    alone = data.gallery is None
    gallery = _Gallery(data.embeddings if data.gallery is None else data.gallery)
    gallery_labels = data.labels if data.gallery_labels is None else data.gallery_labels
    gallery_groups = data.groups if alone else data.gallery_groups
    by_label = gallery_labels.argsort(stable=True)
    ordered = gallery_labels[by_label]
    first = torch.searchsorted(ordered, data.labels)
    candidates = torch.searchsorted(ordered, data.labels, right=True) - first
    by_count = candidates.argsort(stable=True)
    for rows in blocks(len(by_count), len(by_label), chunk):
        block = by_count[rows]
        slots = torch.arange(int(candidates[block].max()), device=block.device)
        match = slots < candidates[block, None]
        items = by_label[(first[block, None] + slots).clamp_max(len(by_label) - 1)]
        ignored = torch.zeros_like(match)
        if alone:
            ignored |= items == block[:, None]
        if data.groups is not None and gallery_groups is not None:
            ignored |= gallery_groups[items] == data.groups[block, None]
        ignored &= match
        match &= ~ignored
        halves = gallery.half_squared_distances(data.embeddings[block])
        halves[ignored.nonzero()[:, 0], items[ignored]] = torch.inf
        keys = gallery.keys(halves)
        own = _sort_rows(torch.where(match, keys.gather(1, items), _LAST))
        yield block, torch.searchsorted(_sort_rows(keys), own) + 1, match.sum(1)


def _sort_rows(keys: Tensor) -> Tensor:
    """Rows in ascending order, in place on CPU: numpy's vectorised sort takes a tenth of the time of torch's there."""
    if keys.device.type != "cpu":
        return keys.sort(dim=1).values
    keys.numpy().sort(axis=1)
    return keys
