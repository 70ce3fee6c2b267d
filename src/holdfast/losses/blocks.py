"""Costs that are sums over the rows of the similarity matrix, with their gradient, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.losses.products import both_ways, gram
from holdfast.losses.sides import Side, Sides
from holdfast.losses.terms import Terms
from holdfast.sphere import precise

Costs: TypeAlias = Callable[[Side, Side], list[Terms]]
"""Positive and negative pairs of some rows → their costs."""

Sums: TypeAlias = list[tuple[Tensor, Tensor]]
"""For each average of a loss the sum of the costs and how many they are."""

BLOCK = 2**18
"""Numbers per block on a CPU: few enough for the cache and for memory that the allocator hands out again without asking
the system, enough that starting a block costs little."""


def row_cost(z: Tensor, sides: Sides, costs: Costs, squared: bool) -> Tensor:
    """The sum of the average costs, at the price of little more than two matrix products.

    The gradient G with respect to the matrix M is found while a block is in the cache, and takes the place of M. As M
    is symmetric, one product with W = G + Gᵀ ends the way back: W z where M holds similarities, and
    2 (diag(W 1) - W) z where it holds squared distances. All this happens in the forward pass, so the gradient cannot
    be differentiated again.

    Args:
        z: vectors of shape (n, dim).
        sides: where the positive and the negative pairs are.
        costs: what rows of the matrix cost; those of one row may depend on that row only.
        squared: the matrix holds squared distances instead of similarities.
    """
    z = precise(z)
    with torch.autocast(z.device.type, enabled=False):
        if torch.is_grad_enabled() and z.requires_grad:
            cost: Tensor = _RowCost.apply(z, sides, costs, squared)  # type: ignore[no-untyped-call]
            return cost
        matrix = gram(z)
        found = [costs(*sides.take(block, rows)) for block, rows in _blocks(matrix, z, squared)]
        return _averages([[terms.sums() for terms in block] for block in found])[0]


class _RowCost(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, sides: Sides, costs: Costs, squared: bool) -> Tensor:
        matrix = gram(z)
        slopes = _Slopes(matrix, sides)
        sums: list[Sums] = []
        for block, rows in _blocks(matrix, z, squared):
            with torch.enable_grad():
                near, far = (side.leaf() for side in sides.take(block, rows))
                found = [terms.sums() for terms in costs(near, far)]
            slopes.record([_gradients(*pair, near, far, pair is not found[-1]) for pair in found], rows)
            sums.append([(total.detach(), number) for total, number in found])  # lets go of the block's graph
        value, numbers = _averages(sums)
        ctx.save_for_backward(slopes.product(numbers, z, squared), (-2 if squared else 1) / numbers[slopes.unit])
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        gradient, factor = ctx.saved_tensors
        return gradient * (upstream * factor), None, None, None


class _Slopes:
    """The gradients of the sums behind the averages; how many costs each average has is known only at the end.

    Args:
        matrix: its rows are given up to the gradients as they come.
        sides: where the positive and the negative pairs are.
    """

    def __init__(self, matrix: Tensor, sides: Sides) -> None:
        self.matrix = matrix
        self.sides = sides
        self.near: dict[int, Tensor] = {}
        self.far: dict[int, Tensor] = {}

    def record(self, gradients: list[tuple[Tensor | None, Tensor | None]], rows: slice) -> None:
        """Those of the next block, average by average; left out where they are zero."""
        for average, (near, far) in enumerate(gradients):
            if near is not None:
                if average not in self.near:
                    self.near[average] = near.new_zeros(len(self.matrix), near.shape[1])
                self.near[average][rows] = near
            if far is not None:
                if average not in self.far:
                    self.far[average] = torch.empty_like(self.matrix) if self.far else self.matrix
                    self.far[average][: rows.start].zero_()
                self.sides.far.write(far, self.far[average][rows], rows)
            elif average in self.far:
                self.far[average][rows].zero_()

    @property
    def unit(self) -> int:
        """The average whose gradient needs no scaling here, as it fills the matrix."""
        return next(iter(self.far), 0)

    def product(self, numbers: Tensor, z: Tensor, squared: bool) -> Tensor:
        """The gradient of the loss with respect to the matrix, both ways, with z, times the number of costs in `unit`.

        Args:
            numbers: of costs, average by average.
            z: vectors of shape (n, dim).
            squared: see `both_ways`.
        """
        share = numbers[self.unit] / numbers
        near = [slope.mul_(share[average]) for average, slope in self.near.items()]
        if not self.far and near:
            return self.sides.near.product(sum(near[1:], near[0]), z, squared)
        if not self.far:
            self.matrix.zero_()
        for average, slope in self.far.items():
            if average != self.unit:
                self.matrix.add_(slope.mul_(share[average]))
        for slope in near:
            self.sides.near.add(slope, self.matrix)
        return both_ways(self.matrix, z, squared)


def _gradients(
    total: Tensor, number: Tensor, near: Side, far: Side, again: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Of the sum of a block's costs; none where there are none, as far as that is known without waiting."""
    if not total.requires_grad or (number.device.type == "cpu" and not number):
        return None, None
    leaves = near.values, far.values
    found: tuple[Tensor | None, ...] = torch.autograd.grad(total, leaves, retain_graph=again, allow_unused=True)
    return found[0], found[1]


def _averages(blocks: list[Sums]) -> tuple[Tensor, Tensor]:
    """The sum of the averages, and the number of costs behind each."""
    flat = torch.stack([part for sums in blocks for pair in sums for part in pair])
    totals, numbers = flat.view(len(blocks), -1, 2).sum(0).unbind(1)
    numbers = numbers.clamp_min(1)
    return (totals / numbers).sum(), numbers


def _blocks(matrix: Tensor, z: Tensor, squared: bool) -> Iterator[tuple[Tensor, slice]]:
    """Blocks of rows of z zᵀ, turned into squared distances in place where wanted."""
    size = max(1, BLOCK // len(matrix)) if matrix.device.type == "cpu" else len(matrix)
    squares = z.square().sum(1) if squared else None
    for start in range(0, len(matrix), size):
        rows = slice(start, min(start + size, len(matrix)))
        block = matrix[rows]
        if squares is not None:
            torch.sub(squares[rows, None] + squares, block, alpha=2, out=block).relu_()
        yield block, rows
