"""What nearest neighbours and ranks share: half squared distances to a gallery, a block at a time, and sortable keys.

Equal distances are ordered by gallery index. To make that rule hold everywhere at no extra cost, a distance and its
gallery index are packed into one integer: the bits of a non-negative float32 sort like the number itself, so they fill
the upper half and the index the lower. Such keys are unique, whatever sorts them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from holdfast.metrics import base

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
