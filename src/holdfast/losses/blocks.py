"""Costs that are sums over the rows of the similarity matrix, with their gradient, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.losses.terms import Terms
from holdfast.sphere import precise

Costs: TypeAlias = Callable[[Tensor, Tensor, slice], list[Terms]]
"""A block of rows of the similarity matrix, the squared lengths of all vectors, which rows → the costs of the rows."""

BLOCK = 2**17
"""Numbers per block on a CPU: the passes over them, one after another, stay in the cache of a core."""

TILE = 256
"""Side of the squares in which a matrix is added to its transpose on a CPU, for the same reason."""


def row_cost(z: Tensor, costs: Costs) -> Tensor:
    """The sum of the average costs, at the price of little more than two matrix products.

    The gradient G with respect to S = z zᵀ is found while a block is in the cache. It takes the place of S, and as S
    is symmetric one product, (G + Gᵀ) z, ends the way back. All this happens in the forward pass, so the gradient
    cannot be differentiated again.
    """
    z = precise(z)
    with torch.autocast(z.device.type, enabled=False):
        if torch.is_grad_enabled() and z.requires_grad:
            cost: Tensor = _RowCost.apply(z, costs)  # type: ignore[no-untyped-call]
            return cost
        s, squares = _gram(z), z.square().sum(1)
        return _averages([[terms.sums() for terms in costs(s[rows], squares, rows)] for rows in _blocks(s)])[0]


class _RowCost(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, costs: Costs) -> Tensor:
        s, squares = _gram(z), z.square().sum(1)
        slopes, lengths = [s], [torch.zeros_like(squares)]
        sums: list[list[tuple[Tensor, Tensor]]] = []
        for rows in _blocks(s):
            with torch.enable_grad():
                leaves = s[rows].detach().requires_grad_(), squares.detach().requires_grad_()
                found = [terms.sums() for terms in costs(*leaves, rows)]
            gradients = [_gradients(total, leaves, again=total is not found[-1][0]) for total, _ in found]
            sums.append([(total.detach(), number) for total, number in found])  # lets go of the block's graph
            while len(slopes) < len(gradients):
                slopes.append(torch.empty_like(s))
                lengths.append(torch.zeros_like(squares))
            for slope, length, (of_block, of_squares) in zip(slopes, lengths, gradients, strict=True):
                slope[rows] = of_block
                length += of_squares
        value, numbers = _averages(sums)
        # The number of costs behind an average is known only now. The first one can wait until the very end.
        for slope, length, number in zip(slopes[1:], lengths[1:], numbers[1:], strict=True):
            s.add_(slope.mul_(numbers[0] / number))
            lengths[0].add_(length * (numbers[0] / number))
        # |z_i|² is S_ii, so what the lengths ask for belongs on the diagonal.
        _add_transpose(s).diagonal().add_(lengths[0], alpha=2)
        ctx.save_for_backward(s @ z, numbers[0])
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        gradient, number = ctx.saved_tensors
        return gradient * (upstream / number), None


def _gradients(total: Tensor, leaves: tuple[Tensor, Tensor], again: bool) -> tuple[Tensor, ...]:
    return torch.autograd.grad(total, leaves, retain_graph=again, allow_unused=True, materialize_grads=True)


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


def _averages(blocks: list[list[tuple[Tensor, Tensor]]]) -> tuple[Tensor, Tensor]:
    """The sum of the averages, and the number of costs behind each."""
    flat = torch.stack([part for sums in blocks for pair in sums for part in pair])
    totals, numbers = flat.view(len(blocks), -1, 2).sum(0).unbind(1)
    numbers = numbers.clamp_min(1)
    return (totals / numbers).sum(), numbers


def _blocks(s: Tensor) -> list[slice]:
    size = max(1, BLOCK // len(s)) if s.device.type == "cpu" else len(s)
    return [slice(start, min(start + size, len(s))) for start in range(0, len(s), size)]


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
