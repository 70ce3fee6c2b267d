"""The n × n matrix of a batch with little work: z zᵀ, the entries of a mask, losses of its rows in blocks.

Each function gives what the plain lines would (`z @ z.T`, `torch.where`, one block of all rows), up to rounding, with
derivatives of any order and kind. Other ways are taken by size, on a CPU; gradients of gradients, `torch.func`, forward
mode and a compiler get the plain lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad

LARGE = 256
"""The batch from which looking for few entries and halving symmetric products pay on a CPU."""

SMALL = 2**16
"""Multiplications of a product below which halving its way back costs more than it saves."""

SPARSE = 0.02
"""The fraction of a matrix up to which a product with its non-zero entries alone is faster."""

BLOCK = 2**18
"""Numbers per block of rows on a CPU: few enough for the cache of a core, enough that starting a block costs little."""

HUGE = 2**26
"""Numbers that are too many to be kept at once on any device."""

RowSum: TypeAlias = Callable[[Tensor, slice], Tensor]
"""Some rows of a matrix, and which they are, to the sum of their losses."""


def weights(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask as numbers: one where it is set, zero elsewhere; numbers as they are."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return mask.view(torch.uint8).to(dtype)  # from booleans it takes a CPU four times as long


def packed(mask: Tensor, *matrices: Tensor) -> tuple[Tensor, ...]:
    """Fewer columns of matrices with all entries that a mask sets: which of them it sets, then those of each matrix.

    For formulas on few entries that need not know their columns. Mask and matrices come back as they are where that
    gains nothing: in small batches, if few groups of eight columns can be left out, and on a GPU, for which the host
    would have to wait; and where a compiler asks, which cannot know how many columns there are.
    """
    if not _large(mask) or mask.shape[1] % 8 or mask.dtype != torch.bool or torch.compiler.is_compiling():
        return mask, *matrices
    groups = mask.view(torch.int64)
    most = max(1, int(groups.count_nonzero(1).max()))
    if 3 * most > groups.shape[1]:
        return mask, *matrices
    found, places = groups.topk(most, dim=1, sorted=False)
    columns = places[:, :, None].expand(-1, -1, 8)
    entries = (matrix.reshape(len(mask), -1, 8).gather(1, columns).flatten(1) for matrix in matrices)
    return found.view(torch.bool), *entries


def product(a: Tensor, b: Tensor) -> Tensor:
    """a bᵀ of vectors in rows."""
    # With b alone turned, torch on ARM starts another library, which takes a small product four times as long.
    return a.T.contiguous().T @ b.T if a.is_cpu and len(a) * b.numel() < LARGE**2 * 64 else a @ b.T


def gram(z: Tensor) -> Tensor:
    """z zᵀ of vectors of shape (n, dim), with one product on the way back where automatic differentiation has two."""
    if len(z) * z.numel() < SMALL or _transformed(z):
        return product(z, z)
    if not torch.is_grad_enabled() or not z.requires_grad:
        return _symmetric(z)
    matrix: Tensor = _Gram.apply(z)  # type: ignore[no-untyped-call]
    return matrix


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return _symmetric(z)

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Tensor:
        (z,), gradient = ctx.saved_tensors, upstream[0]
        if torch.is_grad_enabled():
            plain: Tensor = (gradient + gradient.T) @ z
            return plain
        # A copy first: adding a transposed matrix takes a CPU twice as long.
        return _symmetric_product(gradient.T.clone(memory_format=torch.contiguous_format).add_(gradient), z)


def _large(rows: Tensor) -> bool:
    return len(rows) >= LARGE and rows.device.type == "cpu"


def _transformed(z: Tensor) -> bool:
    """Whether derivatives are taken in another way than backwards: `torch.func`, forward mode, a compiler."""
    tangent = forward_ad.unpack_dual(z).tangent  # type: ignore[no-untyped-call]
    # There is no public way to ask for transforms; `torch.autograd.Function` itself asks so.
    return tangent is not None or torch._C._are_functorch_transforms_active() or torch.compiler.is_compiling()


def _symmetric(z: Tensor) -> Tensor:
    """z zᵀ; of a large batch a quarter is copied from its mirror image."""
    if not _large(z):
        return product(z, z)
    half = len(z) // 2
    matrix = z.new_empty(len(z), len(z))
    torch.mm(z[:half], z.T, out=matrix[:half])
    matrix[half:, half:] = z[half:] @ z[half:].T
    matrix[half:, :half] = matrix[:half, half:].T
    return matrix


def _symmetric_product(matrix: Tensor, z: Tensor) -> Tensor:
    """M z."""
    if not _large(matrix):
        return matrix @ z
    # Whether M is nearly empty is guessed from some of its rows: counting all would cost every other matrix too much.
    some = matrix[:: max(1, len(matrix) // 16)]
    if int(some.count_nonzero()) <= SPARSE * some.numel():
        rows, columns = matrix.nonzero(as_tuple=True)
        if len(rows) <= SPARSE * matrix.numel():
            starts = torch.searchsorted(rows, torch.arange(len(matrix)))
            sums: Tensor = torch.nn.functional.embedding_bag(
                columns, z, starts, mode="sum", per_sample_weights=matrix[rows, columns]
            )
            return sums + 0 * z.sum(0)  # what is not a number spreads as in the full product
    return matrix @ z


def row_sum(matrix: Tensor, sums: RowSum, width: int) -> Tensor:
    """The sum of losses that are sums over the rows of a matrix.

    Of many numbers a block of rows is taken at a time, whose gradient is found in the forward pass while the block is
    in the cache, so that no intermediate value of the whole matrix is kept. Where that gradient is to be
    differentiated, the whole matrix is taken through automatic differentiation instead.

    Args:
        matrix: of shape (n, n).
        sums: the losses of some rows; those of one row may depend on that row only.
        width: numbers that `sums` makes of a row.
    """
    block = BLOCK if matrix.device.type == "cpu" else HUGE // 4
    if len(matrix) * width <= 4 * block or _transformed(matrix):
        return sums(matrix, slice(0, len(matrix)))
    size = max(1, block // width)
    blocks = [slice(start, min(start + size, len(matrix))) for start in range(0, len(matrix), size)]
    if torch.is_grad_enabled() and matrix.requires_grad:
        value: Tensor = _RowSum.apply(matrix, sums, blocks)  # type: ignore[no-untyped-call]
        return value
    return torch.stack([sums(matrix[rows], rows) for rows in blocks]).sum()


class _RowSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, sums: RowSum, blocks: list[slice]) -> Tensor:
        gradient = torch.empty_like(matrix)
        value = matrix.new_zeros(())
        for rows in blocks:
            with torch.enable_grad():
                leaf = matrix[rows].detach().requires_grad_()
                losses = sums(leaf, rows)
            (gradient[rows],) = torch.autograd.grad(losses, leaf)
            value += losses.detach()
        ctx.save_for_backward(matrix, gradient)
        ctx.sums = sums
        return value

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> tuple[Tensor, None, None]:
        matrix, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient is to be differentiated
            plain = ctx.sums(matrix, slice(0, len(matrix)))
            (gradient,) = torch.autograd.grad(plain, matrix, create_graph=True)
        return gradient * upstream[0], None, None
