"""Exact ranks of the images of a query's class, without ever holding all pairs.

By sorting whole rows of distances, or by counting what is nearer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.metrics.base import EmbeddedSet, blocks
from holdfast.metrics.neighbours import LAST, WIDTH, Gallery
from holdfast.processes import current_processes
from holdfast.sphere import Mask

FEW = 16
"""Matches up to which counting what is nearer than each takes less time than sorting the row."""


def match_ranks(
    data: EmbeddedSet, chunk: int | None = None, within: int | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Ranks of each query's matches in its ordering of the gallery, for one block of queries after another.

    Only the ranks of the matches matter to R@k and mAP. Where they are few and the gallery is large, the items before
    each are counted; else the row is sorted and the matches are looked up in it. Blocks hold queries with similar
    numbers of matches, not in their given order; queries whose class the gallery lacks are in none.

    Of n processes each gets every n-th block. They are dealt out whole, as the last bit of a product of matrices, and
    with it the order of near neighbours, may depend on what else is in them.

    Args:
        data: the queries and what they search.
        chunk: queries per block.
        within: rank only each query's nearest match, and that one exactly only up to here: R@k asks no more, and
            nearly all of the counting is spared.

    Yields:
        queries: which queries the block holds.
        ranks: shape (block, width), ascending from 1 in each row, padded at the end with more than the gallery has.
            Width 1 where `within` is given.
        counts: how many matches each row has.
    """
    processes = current_processes()
    gallery = Gallery(data.embeddings if data.gallery is None else data.gallery)
    gallery_labels = data.labels if data.gallery_labels is None else data.gallery_labels
    gallery_groups = data.groups if data.gallery is None else data.gallery_groups
    by_label = gallery_labels.argsort(stable=True)
    ordered = gallery_labels[by_label]
    first = torch.searchsorted(ordered, data.labels)
    candidates = torch.searchsorted(ordered, data.labels, right=True) - first
    by_class = data.labels.argsort(stable=True)  # queries of one class share their matches
    by_count = by_class[candidates[by_class].argsort(stable=True)]
    by_count = by_count[candidates[by_count] > 0]
    few = int((candidates[by_count] <= FEW).sum()) if len(gallery) > WIDTH else 0
    for part, columns, ranked in ((by_count[:few], WIDTH, by_counting), (by_count[few:], len(gallery), by_sorting)):
        for rows in blocks(len(part), columns, chunk)[processes.rank :: processes.world]:
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
            found = ranked(gallery, QueryBlock(data.embeddings[block], items, match, ignored), within)
            yield block, found, match.sum(1)


@dataclass(frozen=True)
class QueryBlock:
    """Some queries and the gallery items of their classes, a row each, padded where `match` and `ignored` are false."""

    vectors: Tensor
    items: Tensor
    match: Mask
    ignored: Mask


def by_sorting(gallery: Gallery, block: QueryBlock, within: int | None = None) -> Tensor:
    """Ranks from sorting whole rows of keys, in which those of the matches (with `within`, the first) are looked up."""
    halves = gallery.half_squared_distances(block.vectors)
    halves[block.ignored.nonzero()[:, 0], block.items[block.ignored]] = torch.inf
    keys = gallery.keys(halves)
    own = torch.where(block.match, keys.gather(1, block.items), LAST)
    if within is not None:
        return (keys < own.amin(1, keepdim=True)).sum(1, keepdim=True) + 1
    own = _sort_rows(own)
    return torch.searchsorted(_sort_rows(keys), own) + 1


def by_counting(gallery: Gallery, block: QueryBlock, within: int | None = None) -> Tensor:
    """Ranks from counting: the other matches before a match, and the items of other classes before it.

    With `within`, only the nearest match is ranked, and a rank beyond that many is only known to be so.
    """
    matched, place = block.items.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    halves = gallery.half_squared_distances(block.vectors, matched).gather(1, place)
    keys = halves.view(torch.int32).to(torch.int64).bitwise_left_shift_(32).bitwise_or_(block.items)
    order = torch.where(block.match, keys, LAST).argsort(1)[:, : None if within is None else 1]
    items, halves, match = (values.gather(1, order) for values in (block.items, halves, block.match))
    halves = torch.where(match, halves, -torch.inf)  # nothing stands before what is no match
    beyond = halves.nextafter(halves.new_tensor(torch.inf))
    before = torch.zeros_like(items, dtype=torch.float64)
    cuts = gallery.cuts(len(items))
    hidden = _by_cut(block.match | block.ignored, block.items, cuts)
    tied = _by_cut(match, items, cuts)
    scratch = halves.new_empty(len(items) * cuts[0].stop)
    for (cut, others), (row, slot), ties in zip(gallery.tiles(block.vectors), hidden, tied, strict=True):
        others[row, block.items[row, slot] - cut.start] = torch.inf
        # Items before a match in the gallery precede it at equal distance too: those up to the next greater number.
        limits = torch.where(items >= cut.stop, beyond, halves)
        rows: Tensor | slice = slice(None)
        if within is not None and others.device.type == "cpu":  # a GPU would have to wait for the answer
            rows = ((others.amin(1) < limits[:, 0]) & (before[:, 0] < within)).nonzero()[:, 0]
        before[rows] += _below(others[rows], limits[rows], scratch)
        for part in blocks(len(ties[0]), cut.stop - cut.start):
            row, slot = ties[0][part], ties[1][part]
            index = torch.arange(cut.start, cut.stop, device=items.device)
            equal = others[row].eq_(halves[row, slot, None]).mul_(index < items[row, slot, None])
            before[row, slot] += equal.sum(1)
    position = torch.arange(1, items.shape[1] + 1, device=items.device)
    ranks: Tensor = torch.where(match, before.long() + position, len(gallery) + 1)
    return ranks


def _by_cut(mask: Mask, items: Tensor, cuts: list[slice]) -> list[tuple[Tensor, Tensor]]:
    """For each cut of the gallery, the rows and slots in which the mask is true for an item of it."""
    row, slot = mask.nonzero(as_tuple=True)
    chosen, order = items[row, slot].sort()
    ends = torch.searchsorted(chosen, torch.tensor([cut.stop for cut in cuts], device=items.device))
    sizes = ends.diff(prepend=ends.new_zeros(1)).tolist()
    return list(zip(torch.split(row[order], sizes), torch.split(slot[order], sizes), strict=True))


def _below(values: Tensor, limits: Tensor, scratch: Tensor) -> Tensor:
    """How many values of each row are below each of its limits.

    Comparing into numbers and adding those takes a third of the time of comparing into truth values and counting them.
    A row has fewer values than the 2^24 up to which float32 counts exactly.
    """
    truth = scratch[: values.numel()].view_as(values)
    return torch.stack([torch.lt(values, limit[:, None], out=truth).sum(1) for limit in limits.unbind(1)], 1)


def _sort_rows(keys: Tensor) -> Tensor:
    """Rows in ascending order, in place on CPU: numpy's vectorised sort takes a tenth of the time of torch's there."""
    if keys.device.type != "cpu":
        return keys.sort(dim=1).values
    keys.numpy().sort(axis=1)
    return keys
