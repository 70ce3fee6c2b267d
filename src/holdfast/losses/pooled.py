"""Costs in which the negatives of an anchor count only together, from half of the similarity matrix on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.losses import products
from holdfast.losses.blocks import Costs
from holdfast.losses.sides import ABSENT, Listed, Side, Sides, Unlisted
from holdfast.sphere import precise

EXPONENT = 60.0
"""Exponentials of numbers between minus this and this, and sums of millions of them, are ordinary float32 numbers."""


def poolable(z: Tensor, labels: Tensor, sides: Sides, sharpness: float) -> bool:
    """Whether `pooled_cost` can be taken: on a CPU, for few positives per row, where no exponential leaves its range.

    Args:
        z: vectors of shape (n, dim).
        labels: integers of shape (n,), or a boolean n × n relevance matrix, which need not be symmetric.
        sides: where the pairs are.
        sharpness: factor of similarities in the exponent.
    """
    if z.device.type != "cpu" or not (isinstance(sides.near, Listed) and isinstance(sides.far, Unlisted)):
        return False
    mutual = labels.dtype != torch.bool or torch.equal(labels, labels.T)
    return mutual and bool(sharpness * precise(z.detach()).square().sum(1).amax() <= EXPONENT)


def pooled_cost(z: Tensor, sides: Sides, costs: Costs, sharpness: float) -> Tensor:
    """The sum of the average costs.

    The matrix E = exp(sharpness · s) of the negatives is symmetric, so half of it is worked out. Its row sums r replace
    the negatives of an anchor by a single one of similarity log(r) / sharpness. With g the gradient of the cost with
    respect to that, W = E ∘ (g / r + (g / r)ᵀ) joins both ways back through the matrix, and one product W z ends them.
    The gradient is found in the forward pass, so it cannot be differentiated again.

    Args:
        z: vectors of shape (n, dim).
        sides: where the pairs are, as `poolable` wants it; of any two images each is on the same side for the other.
        costs: what the rows cost; of their negatives they may use only the log-sum-exp at this sharpness.
        sharpness: factor of similarities in the exponent.
    """
    z = precise(z)
    with torch.autocast(z.device.type, enabled=False):
        if torch.is_grad_enabled() and z.requires_grad:
            cost: Tensor = _PooledCost.apply(z, sides, costs, sharpness)  # type: ignore[no-untyped-call]
            return cost
        _, near, far, _ = _pool(z, sides, sharpness)
        return _total(costs, near, far)


class _PooledCost(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, sides: Sides, costs: Costs, sharpness: float) -> Tensor:
        matrix, near, far, sums = _pool(z, sides, sharpness)
        near, far = near.leaf(), far.leaf()
        with torch.enable_grad():
            cost = _total(costs, near, far)
        leaves = near.values, far.values
        slopes = torch.autograd.grad(cost, leaves, allow_unused=True, materialize_grads=True)
        _weigh(matrix, slopes[1].squeeze(1) / sums)
        sides.near.add(slopes[0], matrix)
        sides.near.add(slopes[0], matrix.T)
        ctx.save_for_backward(matrix @ z)
        return cost.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None, None, None


def _total(costs: Costs, near: Side, far: Side) -> Tensor:
    return torch.stack([terms.mean() for terms in costs(near, far)]).sum()


def _pool(z: Tensor, sides: Sides, sharpness: float) -> tuple[Tensor, Side, Side, Tensor]:
    """E on and below the diagonal, the positives, the pooled negatives, and the row sums of E."""
    assert isinstance(sides.near, Listed)
    columns, size = sides.near.columns, len(z)
    own = torch.arange(size)[:, None]
    matrix, sums = z.new_empty(size, size), z.new_zeros(size)
    scaled = z * sharpness
    for start, end in _tiles(size):
        torch.mm(scaled[start:end], z[:end].T, out=matrix[start:end, :end])
    lower = torch.maximum(columns, own) * size + torch.minimum(columns, own)
    near = matrix.take(lower) / sharpness
    for start, end in _tiles(size):
        rows, tile = slice(start, end), matrix[start:end, :end].exp_()
        tile.scatter_(1, torch.where(columns[rows] < end, columns[rows], own[rows]), 0)
        sums[rows] += tile.sum(1)
        sums[:start] += tile[:, :start].sum(0)
    pooled = torch.where(sums > 0, sums.log() / sharpness, -ABSENT)[:, None]
    sums.clamp_min_(torch.finfo(z.dtype).tiny)  # to divide by
    return matrix, sides.near.side(near, slice(0, size)), Side(pooled, -ABSENT), sums


def _weigh(matrix: Tensor, weights: Tensor) -> None:
    """The lower half times the sum of the weights of row and column, copied to the upper one; in place."""
    for start, end in _tiles(len(matrix)):
        tile = matrix[start:end, :end].mul_(weights[start:end, None] + weights[:end])
        matrix[:start, start:end] = tile[:, :start].T


def _tiles(size: int) -> list[tuple[int, int]]:
    return [(start, min(start + products.TILE, size)) for start in range(0, size, products.TILE)]
