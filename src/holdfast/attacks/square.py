"""A gradient-free attack: random search with squares."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Generator, Tensor

from holdfast.attacks.ball import Ball, pixels
from holdfast.attacks.base import BoundGoal
from holdfast.attacks.budget import Budget
from holdfast.attacks.forward import Attacked, Forward, Lagged, group_size, judge
from holdfast.attacks.frozen import frozen
from holdfast.attacks.pgd import require_pixels
from holdfast.errors import RecipeError
from holdfast.mining.draw import sample

HALVINGS = (0.001, 0.005, 0.02, 0.1, 0.2, 0.4, 0.6, 0.8)
"""Fractions of the queries after which a square covers half of what it did."""


@torch.no_grad()
def square(
    module: Callable[[Tensor], Tensor],
    images: Tensor,
    bound_goal: BoundGoal,
    budget: Budget,
    *,
    queries: int = 500,
    area: float = 0.8,
    generator: Generator | None = None,
    chunk: int | None = None,
    normalize: bool = True,
) -> Attacked:
    """Random search: repaint a square at ±ε in each channel and keep it where the goal's loss falls.

    It needs no gradient, so it also attacks exported models and sees through masked gradients. The first query paints
    vertical stripes; squares shrink as queries are spent. The best images seen are returned, the clean ones included.

    Args:
        module: any function from images in [0, 1] to vectors; modules are frozen and given back as by `pgd`.
        images: floats in [0, 1] of shape (B, C, H, W), group by group.
        bound_goal: a goal, bound to these images.
        budget: its ε in pixel units; the norm must be `linf`. Steps and start mean nothing here.
        queries: passes forward per image.
        area: fraction of the image that the first squares cover.
        generator: source of every random draw; torch's global one when left out.
        chunk: groups per pass; all at once when left out.
        normalize: scale the model's vectors to unit length.

    Reference: Andriushchenko et al., ECCV 2020.
    """
    require_pixels(budget)
    if budget.norm != "linf":
        raise RecipeError(f"the square attack works in the norm linf, not {budget.norm}; use pgd for the other")
    images = pixels(images)
    if images.ndim != 4 or queries < 1:
        raise RecipeError("the square attack needs images of shape (B, C, H, W) and 1 or more queries")
    ball = Ball(images, budget.eps, "linf")
    size = group_size(images, bound_goal)
    forward = Forward(module, normalize)
    bounded = bound_goal.floor > -math.inf
    losses, done = partial(forward.losses, goal=bound_goal, chunk=chunk), Lagged()
    with frozen(module):
        best = images.clone()
        best_loss = previous = losses(best)
        for query in range(queries):
            if bounded and done.ask((best_loss <= bound_goal.floor).all()):
                break
            side = square_side(images, area * shrunk(query, queries))
            tried = _painted(ball, best, side, generator) if query else _stripes(ball, generator)
            loss = losses(tried)
            better = loss < best_loss
            best = torch.where(better.repeat_interleave(size).view(-1, 1, 1, 1), tried, best)
            previous, best_loss = best_loss, torch.where(better, loss, best_loss)
        return judge(forward, ball.finish(best), bound_goal, chunk, previous)


def square_side(images: Tensor, area: float) -> int:
    """The side in pixels of a square that covers a fraction of an image, one pixel at least."""
    height, width = images.shape[-2:]
    return min(max(round(math.sqrt(area * height * width)), 1), height, width)


def within(corner: Tensor, length: int, side: int) -> Tensor:
    """Which of `length` positions lie within a side from each corner."""
    offset = torch.arange(length, device=corner.device)[None, :] - corner[:, None]
    return (offset >= 0) & (offset < side)


def shrunk(query: int, queries: int) -> float:
    """The fraction of its first area that a search repaints at a query."""
    return 0.5 ** sum(query > fraction * queries for fraction in HALVINGS)


def _stripes(ball: Ball, generator: Generator | None) -> Tensor:
    """Every column of each image and channel at +ε or -ε."""
    count, channels, _, width = ball.images.shape
    return ball.project(ball.images + ball.eps * _signs((count, channels, 1, width), ball.images, generator))


def _painted(ball: Ball, best: Tensor, side: int, generator: Generator | None) -> Tensor:
    """The best images with a square of each repainted."""
    count, channels, height, width = best.shape
    down, across = (_drawn(count, length, side, best.device, generator) for length in (height, width))
    where = down[:, None, :, None] & across[:, None, None, :]
    paint = ball.project(ball.images + ball.eps * _signs((count, channels, 1, 1), best, generator))
    return torch.where(where, paint, best)


def _drawn(count: int, length: int, side: int, device: torch.device, generator: Generator | None) -> Tensor:
    """Which of `length` positions lie within a side of a drawn corner, for each image."""
    corner = sample(torch.randint, length - side + 1, (count,), device=device, generator=generator)
    return within(corner, length, side)


def _signs(shape: tuple[int, ...], like: Tensor, generator: Generator | None) -> Tensor:
    return sample(torch.randint, 2, shape, device=like.device, generator=generator).to(like.dtype) * 2 - 1
