"""Costs in which the negatives of an anchor count only together, from half of the similarity matrix on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.losses.blocks import Costs
from holdfast.losses.halves import Half
from holdfast.losses.sides import ABSENT, Listed, Side
from holdfast.losses.terms import total_mean
from holdfast.sphere import precise

EXPONENT = 60.0
"""Exponentials of numbers between minus this and this, and sums of millions of them, are ordinary float32 numbers."""


def poolable(z: Tensor, sharpness: float) -> bool:
    """Whether no exponential of a similarity leaves the range of ordinary numbers."""
    longest = torch.linalg.vector_norm(precise(z.detach()), dim=1).amax()
    return bool(sharpness * longest.square() <= EXPONENT)


def pooled_cost(z: Tensor, near: Listed, costs: Costs, sharpness: float) -> Tensor:
    """The sum of the average costs.

    The matrix E = exp(sharpness · s) of the negatives is symmetric, so half of it is worked out. Its row sums r replace
    the negatives of an anchor by a single one of similarity log(r) / sharpness. With g the gradient of the cost with
    respect to that, W = E ∘ (g / r + (g / r)ᵀ) joins both ways back through the matrix, and one product W z ends them.
    The gradient is found in the forward pass, so it cannot be differentiated again.

    Args:
        z: vectors of shape (n, dim), as `halvable` and `poolable` want them.
        near: where the positive pairs are; all others are negative.
        costs: what the rows cost; of their negatives they may use only the log-sum-exp at this sharpness.
        sharpness: factor of similarities in the exponent.
    """
    z = precise(z)
    with torch.autocast(z.device.type, enabled=False):
        if torch.is_grad_enabled() and z.requires_grad:
            cost: Tensor = _PooledCost.apply(z, near, costs, sharpness)  # type: ignore[no-untyped-call]
            return cost
        _, positives, negatives, _ = _pool(z, near, sharpness)
        return total_mean(costs(positives, negatives))


class _PooledCost(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, near: Listed, costs: Costs, sharpness: float) -> Tensor:
        half, positives, negatives, sums = _pool(z, near, sharpness)
        positives, negatives = positives.leaf(), negatives.leaf()
        with torch.enable_grad():
            cost = total_mean(costs(positives, negatives))
        leaves = positives.values, negatives.values
        pull, push = torch.autograd.grad(cost, leaves, allow_unused=True, materialize_grads=True)
        _weigh(half, push.squeeze(1) / sums)
        half.add(pull * near.real)
        ctx.save_for_backward(half.product(z))
        return cost.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None, None, None


def _pool(z: Tensor, near: Listed, sharpness: float) -> tuple[Half, Side, Side, Tensor]:
    """E, the positives, the pooled negatives, and the row sums of E, never zero."""
    half = Half(z, near.columns, sharpness)
    positives = near.side(half.near() / sharpness, slice(0, len(z)))
    sums = z.new_zeros(len(z))
    half.strike(-torch.inf)
    for rows, tile in half.tiles():
        sums[rows] += tile.exp_().sum(1)
        sums[: rows.start] += tile[:, : rows.start].sum(0)
    pooled = torch.where(sums > 0, sums.log() / sharpness, -ABSENT)
    return half, positives, Side(pooled[:, None], -ABSENT), sums.clamp_min_(torch.finfo(z.dtype).tiny)


def _weigh(half: Half, weights: Tensor) -> None:
    """Times the sum of the weights of row and column, in place."""
    for rows, tile in half.tiles():
        tile.mul_(weights[rows, None] + weights[: rows.stop])
