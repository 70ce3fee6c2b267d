"""Costs of single pairs that end at some distance, from half of the similarity matrix on a CPU."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.losses import products
from holdfast.losses.blocks import Costs
from holdfast.losses.halves import Half
from holdfast.losses.sides import ABSENT, Listed, Side
from holdfast.losses.terms import total_mean
from holdfast.sphere import precise


class Close(NamedTuple):
    """The pairs that can cost something.

    Args:
        positives: their squared distances, row by row.
        negatives: theirs in one column; each pair once, as it counts the same both ways.
        rows: the later image of each negative pair.
        columns: the earlier one.
    """

    positives: Side
    negatives: Side
    rows: Tensor
    columns: Tensor


def close_pairs(z: Tensor, near: Listed, reach: float) -> Close | None:
    """All positives, and the negatives whose squared distance is below the reach; nothing where they are not few.

    Args:
        z: vectors of shape (n, dim), as `halvable` wants them.
        near: where the positive pairs are; all others are negative.
        reach: a squared distance.
    """
    if near.columns.shape[1] > products.SPARSE * len(z):
        return None
    z = precise(z.detach())
    squares = torch.linalg.vector_norm(z, dim=1).square()
    with torch.autocast(z.device.type, enabled=False):
        if _crowded(z, squares, reach) or not bool(squares.sum().isfinite()):
            return None
        return _search(z, squares, near, reach)


def _crowded(z: Tensor, squares: Tensor, reach: float) -> bool:
    """Whether pairs within reach are too many to be listed, as a guess from some rows and columns."""
    some, others = (slice(None, None, max(1, len(z) // number)) for number in (16, 256))
    within = torch.sub(squares[some, None] + squares[others], z[some] @ z[others].T, alpha=2) < reach
    return float(within.float().mean()) > products.SPARSE


def _search(z: Tensor, squares: Tensor, near: Listed, reach: float) -> Close | None:
    half = Half(z, near.columns)
    positives = torch.sub(squares[:, None] + squares[near.columns], half.near(), alpha=2).relu_()
    shortest, found, number = squares.amin(), [], 0
    half.strike(-ABSENT)
    for rows, tile in half.tiles():
        # Row by row: would even the nearest negative be within reach if it were the shortest vector?
        some = (shortest + squares[rows] - 2 * tile.amax(1) < reach).nonzero().squeeze(1)
        if not len(some):
            continue
        apart = torch.sub(squares[rows][some, None] + squares[: rows.stop], tile[some], alpha=2)
        row, column = (apart < reach).nonzero(as_tuple=True)
        once = some[row] + rows.start > column
        row, column = row[once], column[once]
        found.append((some[row] + rows.start, column, apart[row, column]))
        number += 2 * len(row)
        if number > products.SPARSE * len(z) ** 2:
            return None
    empty = near.columns.new_empty(0)
    row, column, values = (torch.cat(parts) for parts in zip((empty, empty, z.new_empty(0)), *found, strict=True))
    sides = near.side(positives, slice(0, len(z))), Side(values.relu_()[:, None], ABSENT)
    return Close(*sides, row, column)


def hinged_cost(z: Tensor, near: Listed, close: Close, costs: Costs) -> Tensor:
    """The sum of the average costs; its gradient cannot be differentiated again.

    Args:
        z: vectors of shape (n, dim).
        near: where the positive pairs are.
        close: the pairs that can cost something.
        costs: what they cost; one pair may not depend on another.
    """
    with torch.autocast(z.device.type, enabled=False):
        if torch.is_grad_enabled() and z.requires_grad:
            cost: Tensor = _HingedCost.apply(precise(z), near, close, costs)  # type: ignore[no-untyped-call]
            return cost
        return total_mean(costs(close.positives, close.negatives))


class _HingedCost(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, near: Listed, close: Close, costs: Costs) -> Tensor:
        positives, negatives = close.positives.leaf(), close.negatives.leaf()
        with torch.enable_grad():
            cost = total_mean(costs(positives, negatives))
        leaves = positives.values, negatives.values
        pull, push = torch.autograd.grad(cost, leaves, allow_unused=True, materialize_grads=True)
        gradient = near.apart(2 * pull, z)  # positives are listed both ways already, with the same cost
        if len(close.rows):
            gradient += products.sparse_both_ways(close.rows, close.columns, push.squeeze(1), z, squared=True)
        ctx.save_for_backward(gradient)
        return cost.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * (-2 * upstream), None, None, None
