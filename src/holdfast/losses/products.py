"""The matrix products of a batch with itself, at the price that its symmetry allows on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.sphere import precise

TILE = 256
"""Side of the squares in which a matrix is transposed on a CPU, so that they stay in the cache of a core."""

SPARSE = 0.02
"""The part of a matrix up to which a product with its non-zero entries alone is faster on a CPU."""


def gram(z: Tensor) -> Tensor:
    """z zᵀ; on a CPU half of it is multiplied and the other half copied."""
    if z.device.type != "cpu":
        return z @ z.T
    s = z.new_empty(len(z), len(z))
    for start in range(0, len(z), TILE):
        rows, before = slice(start, start + TILE), slice(0, start)
        torch.mm(z[rows], z[: start + TILE].T, out=s[rows, : start + TILE])
        s[before, rows] = s[rows, before].T
    return s


def across(chosen: Tensor) -> Tensor:
    """a bᵀ of the first and the second half of some vectors, outside autocast; both gradients fill one tensor."""
    with torch.autocast(chosen.device.type, enabled=False):
        cross: Tensor = _Across.apply(precise(chosen))  # type: ignore[no-untyped-call]
        return cross


class _Across(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, chosen: Tensor) -> Tensor:
        ctx.save_for_backward(chosen)
        a, b = chosen.chunk(2)
        return a @ b.T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        (chosen,) = ctx.saved_tensors
        gradient = torch.empty_like(chosen)
        (a, b), (of_a, of_b) = chosen.chunk(2), gradient.chunk(2)
        torch.mm(upstream, b, out=of_a)
        torch.mm(upstream.T, a, out=of_b)
        return gradient


def both_ways(matrix: Tensor, z: Tensor, squared: bool) -> Tensor:
    """(M + Mᵀ) z, or (M + Mᵀ - diag((M + Mᵀ) 1)) z; the matrix is used up.

    Args:
        matrix: M, of shape (n, n).
        z: vectors of shape (n, dim).
        squared: take the sums of the rows from the diagonal.
    """
    if _nearly_empty(matrix):
        rows, columns = matrix.nonzero(as_tuple=True)
        if len(rows) <= SPARSE * matrix.numel():
            return sparse_both_ways(rows, columns, matrix[rows, columns], z, squared)
    add_transpose(matrix)
    if squared:
        matrix.diagonal().sub_(matrix.sum(1))
    return matrix @ z


def _nearly_empty(matrix: Tensor) -> bool:
    """A guess from some of its rows, as counting all would cost every other matrix too much."""
    if matrix.device.type != "cpu":
        return False
    some = matrix[:: max(1, len(matrix) // 16)]
    return int(some.count_nonzero()) <= SPARSE * some.numel()


def sparse_both_ways(rows: Tensor, columns: Tensor, values: Tensor, z: Tensor, squared: bool) -> Tensor:
    """`both_ways` of a matrix given by its entries, on a CPU.

    Args:
        rows: of the entries.
        columns: of the entries.
        values: of the entries.
        z: vectors of shape (n, dim).
        squared: take the sums of the rows from the diagonal.
    """
    place = torch.stack([torch.cat([rows, columns]), torch.cat([columns, rows])])
    values = torch.cat([values, values])
    if squared:
        sums = z.new_zeros(len(z)).index_add_(0, place[0], values)
        diagonal = torch.arange(len(z)).expand(2, -1)
        place, values = torch.cat([place, diagonal], 1), torch.cat([values, -sums])
    matrix = torch.sparse_coo_tensor(place, values, (len(z), len(z)), check_invariants=False)
    nothing = 0 * z.sum(0)  # what is not a number spreads as in the full product
    product: Tensor = torch.sparse.addmm(nothing.expand_as(z), matrix, z)
    return product


def add_transpose(matrix: Tensor) -> Tensor:
    """The matrix plus its transpose, in place."""
    size = TILE if matrix.device.type == "cpu" else len(matrix)
    tiles = [torch.split(row, size, 1) for row in torch.split(matrix, size)]
    for i, row in enumerate(tiles):
        row[i].add_(row[i].T.clone())
        for j in range(i):
            row[j].add_(tiles[j][i].T)
            tiles[j][i].copy_(row[j].T)
    return matrix
