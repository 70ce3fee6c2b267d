"""Exact ranks of the images of a query's class, without ever holding all pairs."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from holdfast.metrics.base import EmbeddedSet, blocks
from holdfast.metrics.ranking import Block, by_counting, by_sorting
from holdfast.metrics.searched import WIDTH, Gallery
from holdfast.processes import ALONE, Processes

FEW = 16
"""Matches up to which counting what is nearer than each takes less time than sorting the row."""


def match_ranks(
    data: EmbeddedSet, chunk: int | None = None, within: int | None = None, processes: Processes = ALONE
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Ranks of each query's matches in its ordering of the gallery, for one block of queries after another.

    Only the ranks of the matches matter to R@k and mAP. Where they are few and the gallery is large, the items before
    each are counted; else the row is sorted and the matches are looked up in it. Blocks hold queries with similar
    numbers of matches, not in their given order; queries whose class the gallery lacks are in none.

    Args:
        data: the queries and what they search.
        chunk: queries per block.
        within: rank only each query's nearest match, and that one exactly only up to here: R@k asks no more, and
            nearly all of the counting is spared.
        processes: who else ranks; each gets every so-manieth block. They are dealt out whole, as the last bit of a
            product of matrices, and with it the order of near neighbours, may depend on what else is in them.

    Yields:
        queries: which queries the block holds.
        ranks: shape (block, width), ascending from 1 in each row, padded at the end with more than the gallery has.
            Width 1 where `within` is given.
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
            found = ranked(gallery, Block(data.embeddings[block], items, match, ignored), within)
            yield block, found, match.sum(1)
