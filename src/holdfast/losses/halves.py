"""The lower half of the similarity matrix of a batch, tile by tile on a CPU."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from holdfast.losses import products
from holdfast.losses.sides import Listed, Sides, Unlisted


def halvable(z: Tensor, labels: Tensor, sides: Sides) -> bool:
    """Whether half of the matrix tells all: on a CPU, with few positives per row, and each pair on one side both ways.

    Args:
        z: vectors of shape (n, dim).
        labels: integers of shape (n,), or a boolean n × n relevance matrix, which need not be symmetric.
        sides: where the pairs are.
    """
    if z.device.type != "cpu" or not (isinstance(sides.near, Listed) and isinstance(sides.far, Unlisted)):
        return False
    return labels.dtype != torch.bool or torch.equal(labels, labels.T)


class Half:
    """left rightᵀ on and below the diagonal, and in the rest of the squares around it.

    Args:
        left: vectors of shape (n, dim).
        right: the same vectors, up to a factor.
        columns: of those pairs that are no negatives, of shape (n, most), with the image itself.
    """

    def __init__(self, left: Tensor, right: Tensor, columns: Tensor) -> None:
        size = len(left)
        self.matrix = left.new_empty(size, size)
        self._columns = columns
        self._own = torch.arange(size)[:, None]
        for rows, end in self._tiles():
            torch.mm(left[rows], right[:end].T, out=self.matrix[rows, :end])

    def near(self) -> Tensor:
        """What the columns hold, before anything is struck out."""
        lower = torch.maximum(self._columns, self._own) * len(self.matrix) + torch.minimum(self._columns, self._own)
        return self.matrix.take(lower)

    def tiles(self) -> Iterator[tuple[slice, Tensor]]:
        """Rows and what there is of them; the squares end the rows."""
        for rows, end in self._tiles():
            yield rows, self.matrix[rows, :end]

    def strike(self, rows: slice, tile: Tensor, value: float) -> None:
        """Put the value in place of all that is no negative."""
        columns = self._columns[rows]
        tile.scatter_(1, torch.where(columns < tile.shape[1], columns, self._own[rows]), value)

    def _tiles(self) -> Iterator[tuple[slice, int]]:
        size = len(self.matrix)
        for start in range(0, size, products.TILE):
            end = min(start + products.TILE, size)
            yield slice(start, end), end
