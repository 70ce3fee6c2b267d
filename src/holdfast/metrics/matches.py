"""Exact ranks of the images of a query's class, without ever holding all pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.metrics.base import EmbeddedSet, blocks
from holdfast.metrics.searched import LAST, WIDTH, Gallery
from holdfast.sphere import Mask

FEW = 16
"""Matches up to which counting what is nearer than each takes less time than sorting the row."""

WORD = 8
"""Truth values in one 64-bit integer."""


@dataclass(frozen=True)
class _Block:
    """Some queries and the gallery items of their classes, a row each, padded where `match` and `ignored` are false."""

    vectors: Tensor
    items: Tensor
    match: Mask
    ignored: Mask


def match_ranks(data: EmbeddedSet, chunk: int | None = None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Ranks of each query's matches in its ordering of the gallery, for one block of queries after another.

    Only the ranks of the matches matter to R@k and mAP. Where they are few and the gallery is large, the items before
    each are counted; else the row is sorted and the matches are looked up in it. Blocks hold queries with similar
    numbers of matches, not in their given order.

    Yields:
        queries: which queries the block holds.
        ranks: shape (block, width), ascending from 1 in each row, padded at the end with more than the gallery has.
        counts: how many matches each row has.
    """
    gallery = Gallery(data.embeddings if data.gallery is None else data.gallery)
    gallery_labels = data.labels if data.gallery_labels is None else data.gallery_labels
    gallery_groups = data.groups if data.gallery is None else data.gallery_groups
    by_label = gallery_labels.argsort(stable=True)
    ordered = gallery_labels[by_label]
    first = torch.searchsorted(ordered, data.labels)
    candidates = torch.searchsorted(ordered, data.labels, right=True) - first
    by_class = data.labels.argsort(stable=True)  # queries of one class share their matches
    by_count = by_class[candidates[by_class].argsort(stable=True)]
    few = int((candidates <= FEW).sum()) if len(gallery) > WIDTH else 0
    for part, columns, ranked in ((by_count[:few], WIDTH, _counted), (by_count[few:], len(gallery), _sorted)):
        for rows in blocks(len(part), columns, chunk):
            block = part[rows]
            slots = torch.arange(int(candidates[block].max()), device=block.device)
            match = slots < candidates[block, None]
            items = by_label[(first[block, None] + slots).clamp_max(len(by_label) - 1)]
            ignored = torch.zeros_like(match)
            if data.gallery is None:
                ignored |= items == block[:, None]
            if data.groups is not None and gallery_groups is not None:
                ignored |= gallery_groups[items] == data.groups[block, None]
            ignored &= match
            match &= ~ignored
            yield block, ranked(gallery, _Block(data.embeddings[block], items, match, ignored)), match.sum(1)


def _sorted(gallery: Gallery, block: _Block) -> Tensor:
    """Ranks from sorting whole rows of keys, in which those of the matches are looked up."""
    halves = gallery.half_squared_distances(block.vectors)
    halves[block.ignored.nonzero()[:, 0], block.items[block.ignored]] = torch.inf
    keys = gallery.keys(halves)
    own = _sort_rows(torch.where(block.match, keys.gather(1, block.items), LAST))
    return torch.searchsorted(_sort_rows(keys), own) + 1


def _counted(gallery: Gallery, block: _Block) -> Tensor:
    """Ranks from counting: the other matches before a match, and the items of other classes before it."""
    matched, place = block.items.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    halves = gallery.half_squared_distances(block.vectors, matched).gather(1, place)
    keys = halves.view(torch.int32).to(torch.int64).bitwise_left_shift_(32).bitwise_or_(block.items)
    order = torch.where(block.match, keys, LAST).argsort(1)
    items, halves, match = (values.gather(1, order) for values in (block.items, halves, block.match))
    before = torch.zeros_like(items)
    for cut in gallery.cuts(len(items)):
        others = gallery.half_squared_distances(block.vectors, cut)
        row, slot = ((block.match | block.ignored) & _within(block.items, cut)).nonzero(as_tuple=True)
        others[row, block.items[row, slot] - cut.start] = torch.inf
        # Items before a match in the gallery precede it at equal distance too: those up to the next greater number.
        limits = torch.where(items >= cut.stop, halves.nextafter(halves.new_tensor(torch.inf)), halves)
        for column in range(items.shape[1]):
            before[:, column] += _count(others < limits[:, column, None])
        row, slot = (match & _within(items, cut)).nonzero(as_tuple=True)
        for part in blocks(len(row), cut.stop - cut.start):
            rows, slots = row[part], slot[part]
            equal = others[rows] == halves[rows, slots, None]
            index = torch.arange(cut.start, cut.stop, device=items.device)
            before[rows, slots] += _count(equal & (index < items[rows, slots, None]))
    position = torch.arange(1, items.shape[1] + 1, device=items.device)
    ranks: Tensor = torch.where(match, before + position, len(gallery) + 1)
    return ranks


def _within(items: Tensor, cut: slice) -> Mask:
    inside: Mask = (items >= cut.start) & (items < cut.stop)
    return inside


def _count(mask: Mask) -> Tensor:
    """How many are true in each row, eight at a time: torch counts one by one, in five times the time.

    Eight truth values are the bytes of one integer, and no byte of a sum of 128 such integers overflows.
    """
    spare = -mask.shape[1] % (128 * WORD)
    words = (F.pad(mask, (0, spare)) if spare else mask).view(torch.int64)
    return words.view(len(words), -1, 128).sum(2).view(torch.uint8).sum(1)


def _sort_rows(keys: Tensor) -> Tensor:
    """Rows in ascending order, in place on CPU: numpy's vectorised sort takes a tenth of the time of torch's there."""
    if keys.device.type != "cpu":
        return keys.sort(dim=1).values
    keys.numpy().sort(axis=1)
    return keys
