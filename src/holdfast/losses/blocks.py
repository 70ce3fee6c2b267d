"""Costs that are sums over the rows of the similarity matrix, with their gradient, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.losses.terms import Terms
from holdfast.sphere import precise

Costs: TypeAlias = Callable[[Tensor, slice], list[Terms]]
"""A block of rows of the matrix and which rows they are → their costs."""

Sums: TypeAlias = list[tuple[Tensor, Tensor]]
"""For each average of a loss the sum of the costs and how many they are."""

BLOCK = 2**17
"""Numbers per block on a CPU: the passes over them, one after another, stay in the cache of a core."""

TILE = 256
"""Side of the squares in which a matrix is added to its transpose on a CPU, for the same reason."""


def row_cost(z: Tensor, costs: Costs, squared: bool) -> Tensor:
    """The sum of the average costs, at the price of little more than two matrix products.

    The gradient G with respect to the matrix M is found while a block is in the cache, and takes the place of M. As M
    is symmetric, one product with W = G + Gᵀ ends the way back: W z where M holds similarities, and
    2 (diag(W 1) - W) z where it holds squared distances. All this happens in the forward pass, so the gradient cannot
    be differentiated again.

    Args:
        z: vectors of shape (n, dim).
        costs: what rows of the matrix cost; those of one row may depend on that row only.
        squared: the matrix holds squared distances instead of similarities.
    """
    z = precise(z)
    with torch.autocast(z.device.type, enabled=False):
        if torch.is_grad_enabled() and z.requires_grad:
            cost: Tensor = _RowCost.apply(z, costs, squared)  # type: ignore[no-untyped-call]
            return cost
        matrix = _squared_distances(z) if squared else _gram(z)
        return _averages([[terms.sums() for terms in costs(matrix[rows], rows)] for rows in _blocks(matrix)])[0]


class _RowCost(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, costs: Costs, squared: bool) -> Tensor:
        matrix = _squared_distances(z) if squared else _gram(z)
        slopes = [matrix]
        sums: list[Sums] = []
        for rows in _blocks(matrix):
            with torch.enable_grad():
                block = matrix[rows].detach().requires_grad_()
                found = [terms.sums() for terms in costs(block, rows)]
            gradients = [_gradient(total, block, again=total is not found[-1][0]) for total, _ in found]
            sums.append([(total.detach(), number) for total, number in found])  # lets go of the block's graph
            slopes += [torch.empty_like(matrix) for _ in gradients[len(slopes) :]]
            for slope, gradient in zip(slopes, gradients, strict=True):
                slope[rows] = gradient
        value, numbers = _averages(sums)
        # The number of costs behind an average is known only now. The first one can wait until the very end.
        for slope, number in zip(slopes[1:], numbers[1:], strict=True):
            matrix.add_(slope.mul_(numbers[0] / number))
        _add_transpose(matrix)
        factor = numbers[0].reciprocal()
        if squared:
            matrix.diagonal().sub_(matrix.sum(1))
            factor = -2 * factor
        ctx.save_for_backward(matrix @ z, factor)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        gradient, factor = ctx.saved_tensors
        return gradient * (upstream * factor), None, None


def _gradient(total: Tensor, block: Tensor, again: bool) -> Tensor:
    return torch.autograd.grad(total, block, retain_graph=again)[0]


def _gram(z: Tensor) -> Tensor:
    """z zᵀ; on a CPU half of it is multiplied and the other half copied."""
    if z.device.type != "cpu":
        return z @ z.T
    s = z.new_empty(len(z), len(z))
    for start in range(0, len(z), TILE):
        rows, before = slice(start, start + TILE), slice(0, start)
        torch.mm(z[rows], z[: start + TILE].T, out=s[rows, : start + TILE])
        s[before, rows] = s[rows, before].T
    return s


def _squared_distances(z: Tensor) -> Tensor:
    matrix, squares = _gram(z), z.square().sum(1)
    for rows in _blocks(matrix):
        torch.sub(squares[rows, None] + squares, matrix[rows], alpha=2, out=matrix[rows]).relu_()
    return matrix


def _averages(blocks: list[Sums]) -> tuple[Tensor, Tensor]:
    """The sum of the averages, and the number of costs behind each."""
    flat = torch.stack([part for sums in blocks for pair in sums for part in pair])
    totals, numbers = flat.view(len(blocks), -1, 2).sum(0).unbind(1)
    numbers = numbers.clamp_min(1)
    return (totals / numbers).sum(), numbers


def _blocks(matrix: Tensor) -> list[slice]:
    size = max(1, BLOCK // len(matrix)) if matrix.device.type == "cpu" else len(matrix)
    return [slice(start, min(start + size, len(matrix))) for start in range(0, len(matrix), size)]


def _add_transpose(matrix: Tensor) -> Tensor:
    """The matrix plus its transpose, in place."""
    size = TILE if matrix.device.type == "cpu" else len(matrix)
    tiles = [torch.split(row, size, 1) for row in torch.split(matrix, size)]
    for i, row in enumerate(tiles):
        row[i].add_(row[i].T.clone())
        for j in range(i):
            row[j].add_(tiles[j][i].T)
            tiles[j][i].copy_(row[j].T)
    return matrix
