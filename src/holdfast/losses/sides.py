"""The positive and the negative pairs of some rows of the matrix, taken apart."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from holdfast.losses.products import SPARSE, both_ways, sparse_both_ways

ABSENT = 2.0**53
"""Where there is no pair a side may hold this, so near or so far that a hinge or an exponential of it is zero; its
square and its multiple by any sensible scale are still numbers."""


class Side:
    """The pairs of one kind, one row per anchor.

    Args:
        values: what the matrix holds for them; where there is no pair, a number that is hugely far among negatives and
            hugely near among positives, so that costs which fade out are zero there by themselves.
        absent: that number.
        others: the other image of each pair, of the same shape; all images in their order when left out.
    """

    def __init__(self, values: Tensor, absent: float, others: Tensor | None = None) -> None:
        self.values = values
        self._absent = absent
        self._others = others
        self._mask: Tensor | None = None

    @property
    def mask(self) -> Tensor:
        """Which entries are pairs, as zeros and ones: a product is far cheaper than a choice by booleans."""
        if self._mask is None:
            compare = torch.lt if self._absent > 0 else torch.gt
            values = self.values.detach()
            self._mask = compare(values, self._absent / 2, out=torch.empty_like(values))
        return self._mask

    def at_others(self, vector: Tensor) -> Tensor:
        """A number per image, laid out as the other image of each pair."""
        return vector[None, :] if self._others is None else vector[self._others]

    def detached(self) -> Side:
        """The same without a graph."""
        return Side(self.values.detach(), self._absent, self._others)

    def leaf(self) -> Side:
        """The same as the beginning of a graph."""
        return Side(self.values.detach().requires_grad_(), self._absent, self._others)


class Pick(Protocol):
    """How one side is found in the matrix."""

    def take(self, matrix: Tensor, rows: slice) -> Side:
        """The side of these rows, which `matrix` holds; differentiable."""

    def write(self, gradient: Tensor, into: Tensor, rows: slice) -> None:
        """Put the gradient of a side in the place of these rows of the matrix, which `into` holds."""


class NearPick(Pick, Protocol):
    """One whose gradient can be added to that of another."""

    def add(self, gradient: Tensor, into: Tensor) -> None:
        """Add the gradient of a side, all rows, to that of the matrix."""

    def product(self, gradient: Tensor, z: Tensor, squared: bool) -> Tensor:
        """`both_ways` of a matrix that holds nothing but the gradient of this side."""


class Sides(NamedTuple):
    """How both sides are found."""

    near: NearPick
    far: Pick

    def take(self, matrix: Tensor, rows: slice) -> tuple[Side, Side]:
        """Positive and negative pairs of these rows, which `matrix` holds."""
        return self.near.take(matrix, rows), self.far.take(matrix, rows)


class Listed(NamedTuple):
    """The columns of each row are listed: cheap where they are few.

    Args:
        columns: of shape (n, most), any where a row has fewer.
        real: which of them are pairs.
        absent: what to hold elsewhere.
    """

    columns: Tensor
    real: Tensor
    absent: float

    def take(self, matrix: Tensor, rows: slice) -> Side:
        """See `Pick`."""
        return self.side(matrix.gather(1, self.columns[rows]), rows)

    def side(self, values: Tensor, rows: slice) -> Side:
        """The side of these rows, given what the matrix holds at their columns."""
        return Side(torch.where(self.real[rows], values, self.absent), self.absent, self.columns[rows])

    def write(self, gradient: Tensor, into: Tensor, rows: slice) -> None:
        """See `Pick`."""
        into.zero_().scatter_add_(1, self.columns[rows], gradient * self.real[rows])

    def add(self, gradient: Tensor, into: Tensor) -> None:
        """See `Pick`."""
        into.scatter_add_(1, self.columns, gradient * self.real)

    def product(self, gradient: Tensor, z: Tensor, squared: bool) -> Tensor:
        """See `NearPick`."""
        if self.columns.numel() > SPARSE * len(z) ** 2:
            matrix = z.new_zeros(len(z), len(z))
            self.add(gradient, matrix)
            return both_ways(matrix, z, squared)
        rows = torch.arange(len(z))[:, None].expand_as(self.columns)
        return sparse_both_ways(rows.flatten(), self.columns.flatten(), (gradient * self.real).flatten(), z, squared)

    def apart(self, gradient: Tensor, z: Tensor) -> Tensor:
        """(M - diag(M 1)) z of the matrix M that holds the gradient of this side; on a CPU."""
        weights = gradient * self.real
        return torch.nn.functional.embedding_bag(self.columns, z, mode="sum", per_sample_weights=weights).addcmul_(
            weights.sum(1, keepdim=True), z, value=-1
        )


class Unlisted(NamedTuple):
    """All columns but the listed ones.

    Args:
        columns: of shape (n, most).
        absent: what to hold there.
    """

    columns: Tensor
    absent: float

    def take(self, matrix: Tensor, rows: slice) -> Side:
        """See `Pick`; without a graph the matrix itself is struck out."""
        strike = matrix.scatter if matrix.requires_grad else matrix.scatter_
        return Side(strike(1, self.columns[rows], self.absent), self.absent)

    def write(self, gradient: Tensor, into: Tensor, rows: slice) -> None:
        """See `Pick`."""
        into.copy_(gradient)


class Masked(NamedTuple):
    """Those of an n × n mask: nothing has to be known on the host.

    Args:
        mask: which entries are pairs, as zeros and ones: a choice by booleans takes several times as long on a CPU.
        absent: what to hold elsewhere.
    """

    mask: Tensor
    absent: float

    def take(self, matrix: Tensor, rows: slice) -> Side:
        """See `Pick`."""
        mask = self.mask[rows]
        # To a number that large, what the matrix holds adds nothing.
        return Side(torch.addcmul((1 - mask).mul_(self.absent), matrix, mask), self.absent)

    def write(self, gradient: Tensor, into: Tensor, rows: slice) -> None:
        """See `Pick`."""
        torch.mul(gradient, self.mask[rows], out=into)

    def add(self, gradient: Tensor, into: Tensor) -> None:
        """See `Pick`."""
        into.addcmul_(gradient, self.mask)

    def product(self, gradient: Tensor, z: Tensor, squared: bool) -> Tensor:
        """See `NearPick`."""
        return both_ways(gradient.mul_(self.mask), z, squared)
