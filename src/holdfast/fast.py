"""Faster ways to what plain formulas on the similarity matrix give: its symmetry, and blocks of its rows.

The reference is `z @ z.T` and automatic differentiation. What is here gives the same numbers and derivatives of any
order: large batches on a CPU take the ways below, chosen by size, and leave them where gradients of gradients,
`torch.func`, forward mode or a compiler ask for more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad

LARGE = 1024
"""The batch from which blocks of rows and sparse gradients are faster than the whole matrix at once on a CPU."""

BLOCK = 2**18
"""Numbers per block: few enough for the cache of a core, enough that starting a block costs little."""

SPARSE = 0.02
"""The part of a matrix up to which a product with its non-zero entries alone is faster."""

Sums: TypeAlias = list[tuple[Tensor, Tensor]]
"""For each average of a loss the sum of its losses and how many they are."""

RowSums: TypeAlias = Callable[[Tensor, slice], Sums]
"""Some rows of a matrix, and which they are, to the sums of their losses."""


HUGE = 2**26
"""Numbers that are too many to be kept at once on any device."""


def usable(rows: Tensor, width: int | None = None) -> bool:
    """Whether a tensor is a large one on a CPU, or huge, of which no more than a gradient backwards is asked.

    Args:
        rows: one per image.
        width: numbers that are made of a row.
    """
    large = len(rows) >= LARGE and rows.device.type == "cpu"
    return (large or (width or 0) * len(rows) > HUGE) and not _transformed(rows)


def _transformed(z: Tensor) -> bool:
    """Whether derivatives are taken in another way than backwards: `torch.func`, forward mode, a compiler."""
    tangent = forward_ad.unpack_dual(z).tangent  # type: ignore[no-untyped-call]
    # There is no public way to ask for transforms; `torch.autograd.Function` itself asks so.
    return tangent is not None or torch._C._are_functorch_transforms_active() or torch.compiler.is_compiling()


def gram(z: Tensor) -> Tensor:
    """z zᵀ of vectors of shape (n, dim), with one product on the way back where automatic differentiation has two."""
    if not torch.is_grad_enabled() or not z.requires_grad or _transformed(z):
        return z @ z.T
    product: Tensor = _Gram.apply(z)  # type: ignore[no-untyped-call]
    return product


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return z @ z.T

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Tensor:
        (z,), (gradient,) = ctx.saved_tensors, upstream
        plain = torch.is_grad_enabled() or not usable(gradient)
        return (gradient + gradient.T) @ z if plain else _both_ways(gradient, z)


def _both_ways(matrix: Tensor, z: Tensor) -> Tensor:
    """(M + Mᵀ) z."""
    # Whether M is nearly empty is guessed from some of its rows: counting all would cost every other matrix too much.
    some = matrix[:: max(1, len(matrix) // 16)]
    if int(some.count_nonzero()) <= SPARSE * some.numel():
        rows, columns = matrix.nonzero(as_tuple=True)
        if len(rows) <= SPARSE * matrix.numel():
            place = torch.stack([torch.cat([rows, columns]), torch.cat([columns, rows])])
            values = matrix[rows, columns].repeat(2)
            sparse = torch.sparse_coo_tensor(place, values, matrix.shape, check_invariants=False)
            nothing = 0 * z.sum(0)  # what is not a number spreads as in the full product
            product: Tensor = torch.sparse.addmm(nothing.expand_as(z), sparse, z)
            return product
    return (matrix + matrix.T) @ z


def row_losses(matrix: Tensor, sums: RowSums, width: int | None = None) -> Tensor:
    """The sum of the averages of losses that are sums over the rows of a matrix.

    A block of rows at a time, whose gradient is found in the forward pass while the block is in the cache, so that no
    intermediate value of the whole matrix is kept. Where that gradient is to be differentiated, the whole matrix is
    taken through automatic differentiation instead.

    Args:
        matrix: of shape (n, n).
        sums: the losses of some rows; those of one row may depend on that row only.
        width: numbers that `sums` makes of a row; as many as its entries when left out.
    """
    size = max(1, (BLOCK if matrix.device.type == "cpu" else HUGE // 4) // (width or len(matrix)))
    if torch.is_grad_enabled() and matrix.requires_grad:
        value: Tensor = _RowLosses.apply(matrix, sums, size)  # type: ignore[no-untyped-call]
        return value
    return averages([sums(matrix[rows], rows) for rows in _blocks(len(matrix), size)])[0]


class _RowLosses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, sums: RowSums, size: int) -> Tensor:
        slopes: list[Tensor] = []
        found: list[Sums] = []
        for rows in _blocks(len(matrix), size):
            with torch.enable_grad():
                leaf = matrix[rows].detach().requires_grad_()
                losses = sums(leaf, rows)
            slopes = slopes or [torch.empty_like(matrix) for _ in losses]
            for slope, single in zip(slopes, losses, strict=True):
                gradient = _gradient(*single, leaf, again=single is not losses[-1])
                slope[rows].zero_() if gradient is None else slope[rows].copy_(gradient)
            found.append([(total.detach(), number) for total, number in losses])
        value, numbers = averages(found)
        gradient, *others = (slope.div_(number) for slope, number in zip(slopes, numbers, strict=True))
        for other in others:
            gradient.add_(other)
        ctx.save_for_backward(matrix, gradient)
        ctx.sums = sums
        return value

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> tuple[Tensor, None, None]:
        matrix, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient is to be differentiated
            plain = averages([ctx.sums(matrix, slice(0, len(matrix)))])[0]
            (gradient,) = torch.autograd.grad(plain, matrix, create_graph=True)
        return gradient * upstream[0], None, None


def averages(blocks: list[Sums]) -> tuple[Tensor, Tensor]:
    """The sum of the averages, and the number of losses behind each."""
    flat = torch.stack([part for sums in blocks for pair in sums for part in pair])
    totals, numbers = flat.view(len(blocks), -1, 2).sum(0).unbind(1)
    numbers = numbers.clamp_min(1)
    return (totals / numbers).sum(), numbers


def _blocks(rows: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def _gradient(total: Tensor, number: Tensor, leaf: Tensor, again: bool) -> Tensor | None:
    """Of the sum of a block's losses; none where there are none, as far as that is known without waiting."""
    if not total.requires_grad or (number.device.type == "cpu" and not number):
        return None
    return torch.autograd.grad(total, leaf, retain_graph=again, allow_unused=True)[0]
