"""A visible square anywhere in an image, its pixels free: by gradient, or by random search where there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from holdfast.attacks.ball import Ball, per_image, pixels
from holdfast.attacks.base import BoundGoal
from holdfast.attacks.budget import Budget
from holdfast.attacks.forward import Attacked, Forward, Lagged, Precision, chunks, group_size, judge
from holdfast.attacks.frozen import frozen
from holdfast.attacks.square import shrunk, square_side, within
from holdfast.attacks.steppers import Apgd
from holdfast.errors import ModelError, RecipeError
from holdfast.mining.draw import sample

AREA = 0.05
STEPS = 20
PLACES = 4
QUERIES = 500
MOVES = 5
"""One query in so many moves the patch, the others repaint a part of it."""


def patch(
    module: nn.Module,
    images: Tensor,
    bound_goal: BoundGoal,
    *,
    area: float = AREA,
    steps: int = STEPS,
    places: int = PLACES,
    generator: Generator | None = None,
    chunk: int | None = None,
    precision: Precision = "float32",
    normalize: bool = True,
) -> Attacked:
    """Replace one square of each image, wherever that helps most, by pixels that lead to a goal.

    The gradient at the clean image says what a square could gain at every place, if pixels went to 0 or 1. The most
    promising places that do not overlap are tried, and a random patch beside them; APGD with free pixels goes on from
    the best and returns its best iterate. So the result is never kinder than that random patch, `random_patch` of the
    same generator.

    Args:
        module: maps images in [0, 1] to vectors; frozen and given back as by `pgd`.
        images: floats in [0, 1] of shape (B, C, H, W), group by group.
        bound_goal: a goal, bound to these images.
        area: of the square, as a fraction of the image's.
        steps: gradient steps; one more pass forward and back looks for places.
        places: how many to try, one pass forward each.
        generator: draws the random patch; torch's global one when left out.
        chunk: groups per pass; all at once when left out.
        precision: of crafting, as for `pgd`.
        normalize: scale the model's vectors to unit length.

    Reference: Karmon et al., LaVAN, ICML 2018; chosen places after Rao et al., ECCV Workshops 2020.
    """
    images, side = pixels(images), patch_side(images, area)
    if steps < 1 or places < 1:
        raise RecipeError(f"a patch needs 1 or more steps and places, got {steps} and {places}")
    first, where = random_patch(images, area, generator)
    forward, made, previous = Forward(module, normalize, precision), [], []
    with frozen(module):
        for rows, goal in chunks(images, bound_goal, chunk):
            start, mask = _best_place(forward, images[rows], goal, side, places, first[rows], where[rows])
            x, loss = _descend(forward, start, goal, mask, steps)
            made.append(x)
            previous.append(loss)
        return judge(Forward(module, normalize), torch.cat(made), bound_goal, chunk, torch.cat(previous))


@torch.no_grad()
def patch_search(
    module: Callable[[Tensor], Tensor],
    images: Tensor,
    bound_goal: BoundGoal,
    *,
    area: float = AREA,
    queries: int = QUERIES,
    generator: Generator | None = None,
    chunk: int | None = None,
    normalize: bool = True,
) -> Attacked:
    """The same without gradients: repaint a part of the patch, or move it, and keep what lowers the goal's loss.

    It starts at `random_patch`; parts that are repainted and distances that it moves shrink as queries are spent.

    Args:
        module: any function from images in [0, 1] to vectors.
        images: floats in [0, 1] of shape (B, C, H, W), group by group.
        bound_goal: a goal, bound to these images.
        area: of the square, as a fraction of the image's.
        queries: passes forward per image.
        generator: source of every random draw; torch's global one when left out.
        chunk: groups per pass; all at once when left out.
        normalize: scale the model's vectors to unit length.

    Reference: after Croce et al., Sparse-RS, AAAI 2022.
    """
    images, side = pixels(images), patch_side(images, area)
    if queries < 1:
        raise RecipeError(f"a search needs 1 or more queries, got {queries}")
    forward, size, done = Forward(module, normalize), group_size(images, bound_goal), Lagged()
    losses = partial(forward.losses, goal=bound_goal, chunk=chunk)
    corners, paint = _drawn_corners(images, side, generator), _drawn_paint(images, side, generator)
    with frozen(module):
        best = _pasted(images, paint, corners)
        best_loss = previous = losses(best)
        for query in range(1, queries):
            if bound_goal.floor > -math.inf and done.ask((best_loss <= bound_goal.floor).all()):
                break
            fraction = shrunk(query, queries)
            if query % MOVES:
                tried_corners, tried_paint = corners, _repainted(paint, fraction, generator)
            else:
                tried_corners, tried_paint = _moved(images, corners, side, fraction, generator), paint
            tried = _pasted(images, tried_paint, tried_corners)
            loss = losses(tried)
            better = loss < best_loss
            each = better.repeat_interleave(size)
            best, paint = (
                torch.where(per_image(each, old), new, old) for new, old in ((tried, best), (tried_paint, paint))
            )
            corners = torch.where(each[:, None], tried_corners, corners)
            previous, best_loss = best_loss, torch.where(better, loss, best_loss)
        return judge(forward, best, bound_goal, chunk, previous)


def random_patch(images: Tensor, area: float = AREA, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
    """Images with one square each of random pixels at a random place, and where it is: a mask of shape (B, 1, H, W).

    Args:
        images: floats in [0, 1] of shape (B, C, H, W).
        area: of the square, as a fraction of the image's.
        generator: source of every random draw; torch's global one when left out.
    """
    side = patch_side(images, area)
    corners = _drawn_corners(images, side, generator)
    return _pasted(images, _drawn_paint(images, side, generator), corners), _mask(images, corners, side)


def patch_side(images: Tensor, area: float) -> int:
    """The side in pixels of a square that covers a fraction of an image."""
    if images.ndim != 4 or not 0 < area <= 1:
        raise RecipeError(f"a patch needs images of shape (B, C, H, W) and an area above 0 and up to 1, got {area}")
    return square_side(images, area)


def _best_place(
    forward: Forward, images: Tensor, goal: BoundGoal, side: int, places: int, drawn: Tensor, where: Tensor
) -> tuple[Tensor, Tensor]:
    """The best of some patched images, a drawn one among them, and where its square is."""
    _, gradient = forward.gradient(images, goal, first=True)
    lowered = torch.where(gradient > 0, torch.zeros_like(images), torch.where(gradient < 0, 1.0, images))
    gain = -(gradient * (lowered - images)).sum(1, keepdim=True)
    gains = F.avg_pool2d(gain, side, stride=1)
    best, mask, best_loss = drawn, where, forward.loss(drawn, goal)
    for _ in range(places):
        corners = _corners(gains.flatten(1).argmax(1), gains.shape[-1])
        here = _mask(images, corners, side)
        tried = torch.where(here, lowered, images)
        loss = forward.loss(tried, goal)
        better = (loss < best_loss).repeat_interleave(len(images) // len(loss)).view(-1, 1, 1, 1)
        best, mask = torch.where(better, tried, best), torch.where(better, here, mask)
        best_loss = torch.minimum(loss, best_loss)
        gains = gains.masked_fill(_near(gains, corners, side), -torch.inf)
    return best, mask


def _descend(forward: Forward, start: Tensor, goal: BoundGoal, mask: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Follow the gradient inside the squares; the best images, and their loss one update before the last."""
    budget = Budget(eps=1.0, step=0.5, steps=steps, method="apgd")
    stepper = Apgd(Ball(start, budget.eps, budget.norm), budget, group_size(start, goal))
    x, slope, done = start, start.new_zeros(()), Lagged()
    for _ in range(steps):
        loss, gradient = forward.gradient(x, goal, first=False)
        slope = slope + gradient.sum() + loss.sum()
        if goal.floor > -math.inf and done.ask((loss <= goal.floor).all()):
            break
        x = stepper.step(x, gradient * mask, loss)
    if not bool(slope.isfinite()):
        raise ModelError("embeddings or their gradients contain NaN or inf; check the model's weights")
    return stepper.choose(x, lambda points: forward.loss(points, goal)), loss


def _drawn_corners(images: Tensor, side: int, generator: Generator | None) -> Tensor:
    """A random place for each image: the row and column at which its square begins."""
    drawn = sample(torch.rand, (len(images), 2), device=images.device, generator=generator)
    return (drawn * _ends(images, side)).long()


def _drawn_paint(images: Tensor, side: int, generator: Generator | None) -> Tensor:
    shape = (len(images), images.shape[1], side, side)
    return sample(torch.rand, shape, device=images.device, generator=generator).to(images)


def _ends(images: Tensor, side: int) -> Tensor:
    """One past the last row and column at which a square can begin."""
    return torch.tensor([length - side + 1 for length in images.shape[-2:]], device=images.device)


def _corners(index: Tensor, width: int) -> Tensor:
    """Row and column of a position that counts row by row."""
    return torch.stack([index // width, index % width], 1)


def _mask(images: Tensor, corners: Tensor, side: int) -> Tensor:
    """Where the squares are; of shape (B, 1, H, W)."""
    down, across = (
        within(corner, length, side) for corner, length in zip(corners.unbind(1), images.shape[-2:], strict=True)
    )
    return down[:, None, :, None] & across[:, None, None, :]


def _near(gains: Tensor, corners: Tensor, side: int) -> Tensor:
    """Places whose square overlaps the one at a corner; none where that would leave no other place."""
    near = _mask(gains, corners - (side - 1), 2 * side - 1)
    return near & ~(near | gains.isinf()).flatten(1).all(1).view(-1, 1, 1, 1)


def _pasted(images: Tensor, paint: Tensor, corners: Tensor) -> Tensor:
    """Images with a painted square each."""
    span = torch.arange(paint.shape[-1], device=images.device)
    rows, columns = (corner[:, None] + span for corner in corners.unbind(1))
    first = torch.arange(len(images), device=images.device).view(-1, 1, 1)
    out = images.clone()
    out[first, :, rows[:, :, None], columns[:, None, :]] = paint.permute(0, 2, 3, 1)
    return out


def _repainted(paint: Tensor, fraction: float, generator: Generator | None) -> Tensor:
    """Patches with a square of each, of a fraction of their area, in one colour at the ends of the range."""
    part = max(1, round(math.sqrt(fraction) * paint.shape[-1]))
    where = _mask(paint, _drawn_corners(paint, part, generator), part)
    colour = sample(torch.randint, 2, (*paint.shape[:2], 1, 1), device=paint.device, generator=generator)
    return torch.where(where, colour.to(paint), paint)


def _moved(images: Tensor, corners: Tensor, side: int, fraction: float, generator: Generator | None) -> Tensor:
    """Corners that go at most a fraction of the way towards random ones, and a pixel at least."""
    away = _drawn_corners(images, side, generator) - corners
    step = torch.maximum((fraction * away.abs()).ceil(), torch.ones_like(away, dtype=images.dtype)).long() * away.sign()
    return corners + step
