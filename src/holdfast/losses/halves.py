"""The lower half of the similarity matrix of a batch, tile by tile on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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
    """factor · z zᵀ on and below the diagonal, and in the rest of the squares around it.

    Tiles lie one after the other in memory, so that no pass over one of them skips from row to row, and nothing is
    written for the half that is left out.

    Args:
        z: vectors of shape (n, dim).
        columns: of those pairs that are no negatives, of shape (n, most), with the image itself.
        factor: of the products.
    """

    def __init__(self, z: Tensor, columns: Tensor, factor: float = 1.0) -> None:
        size = len(z)
        starts = range(0, size, products.TILE)
        self._rows = [slice(start, min(start + products.TILE, size)) for start in starts]
        areas = [(rows.stop - rows.start) * rows.stop for rows in self._rows]
        self._flat = z.new_empty(sum(areas))
        parts = torch.split(self._flat, areas)
        self._tiles = [part.view(-1, rows.stop) for part, rows in zip(parts, self._rows, strict=True)]
        own = torch.arange(size)
        widths = torch.clamp((own // products.TILE + 1) * products.TILE, max=size)
        begins = widths.cumsum(0) - widths
        own = own[:, None]
        self._below = columns <= own
        self._here = _places(own, columns, widths[:, None], begins[:, None])
        self._there = _places(columns, own, widths[columns], begins[columns])
        nothing = z.new_zeros(())
        for rows, tile in self.tiles():
            torch.addmm(nothing, z[rows], z[: rows.stop].T, beta=0, alpha=factor, out=tile)

    def near(self) -> Tensor:
        """What the columns hold, before anything is struck out."""
        return self._flat.take(torch.where(self._below, self._here.place, self._there.place))

    def tiles(self) -> Iterator[tuple[slice, Tensor]]:
        """Rows and what there is of them; the squares end the rows."""
        return zip(self._rows, self._tiles, strict=True)

    def strike(self, value: float) -> None:
        """Put the value in place of all that is no negative."""
        self._flat.index_fill_(0, self._here.place.flatten(), value)

    def add(self, gradient: Tensor) -> None:
        """Add a gradient with respect to what the columns hold, and its transpose; zero for the image itself."""
        for place, present in (self._here, self._there):
            self._flat.scatter_add_(0, place.flatten(), (gradient * present).flatten())

    def product(self, z: Tensor) -> Tensor:
        """What is held here, as a symmetric matrix, with z."""
        result = torch.empty_like(z)
        for rows, tile in self.tiles():
            torch.mm(tile, z[: rows.stop], out=result[rows])
            result[: rows.start].addmm_(tile[:, : rows.start].T, z[rows])
        return result


class _Places(NamedTuple):
    """Where entries of the matrix lie in memory: those of the half that is left out on the diagonal of their row."""

    place: Tensor
    present: Tensor


def _places(row: Tensor, column: Tensor, widths: Tensor, begins: Tensor) -> _Places:
    present = column < widths
    return _Places(begins + torch.where(present, column, row), present)
