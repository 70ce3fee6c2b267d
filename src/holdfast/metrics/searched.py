"""What nearest neighbours and ranks share: half squared distances to a gallery, a block at a time, and sortable keys.

Equal distances are ordered by gallery index. To make that rule hold everywhere at no extra cost, a distance and its
gallery index are packed into one integer: the bits of a non-negative float32 sort like the number itself, so they fill
the upper half and the index the lower. Such keys are unique, whatever sorts them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.metrics import base

INDEX = 2**32 - 1
"""The part of a key that holds the gallery index."""

LAST = torch.iinfo(torch.int64).max
"""A key behind all others."""

WIDTH = 8192
"""Gallery items in one block: enough for a fast product with a few hundred queries, few enough to stay in the cache."""


class Gallery:
    """Vectors to be ranked, with what every block of queries needs of them."""

    def __init__(self, vectors: Tensor) -> None:
        self.vectors = vectors
        parts = base.blocks(len(vectors), vectors.shape[1])  # the squares of all would take as much room as the vectors
        self._half_squares = torch.cat([vectors[part].square().sum(1) for part in parts]) / 2
        self._index = torch.arange(len(vectors), device=vectors.device)

    def __len__(self) -> int:
        return len(self.vectors)

    def half_squared_distances(self, queries: Tensor, items: slice | Tensor = slice(None)) -> Tensor:
        """Half the squared distance of every query to every item, in float32 and never negative."""
        with torch.autocast(queries.device.type, enabled=False):
            halves = torch.addmm(self._half_squares[items], queries, self.vectors[items].T, alpha=-1)
        return halves.add_(queries.square().sum(1, keepdim=True) / 2).clamp_min_(0).float()

    def keys(self, distances: Tensor, items: slice = slice(None)) -> Tensor:
        """Unique integers that sort by distance, then by gallery index."""
        return distances.view(torch.int32).to(torch.int64).bitwise_left_shift_(32).bitwise_or_(self._index[items])

    def cuts(self, rows: int) -> list[slice]:
        """The gallery in blocks that hold about `BLOCK` distances for so many queries."""
        width = max(1, base.BLOCK // max(rows, 1))
        return [slice(start, min(start + width, len(self))) for start in range(0, len(self), width)]


def distance_of(keys: Tensor) -> Tensor:
    """The float32 distance inside each key; NaN for `LAST`."""
    return keys.bitwise_right_shift(32).to(torch.int32).view(torch.float32)
