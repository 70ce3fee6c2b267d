"""Forward through a model that is under attack, and what comes of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.attacks.base import BoundGoal
from holdfast.errors import DataError, ModelError
from holdfast.models.weight_types import other_type
from holdfast.sphere import precise

Precision: TypeAlias = Literal["float32", "bfloat16"]

_tell: ContextVar[Callable[[int, bool], None] | None] = ContextVar("tell", default=None)


class OneWay(nn.Module):
    """A module whose gradients take no pass back through the model."""


@contextmanager
def counting(tell: Callable[[int, bool], None]) -> Iterator[None]:
    """Tell of every pass that attacks make in the block: of how many images, and whether a gradient comes back.

    Whoever counts around the block is told too.
    """
    outer = _tell.get()

    def both(images: int, back: bool) -> None:
        tell(images, back)
        if outer is not None:
            outer(images, back)

    before = _tell.set(both)
    try:
        yield
    finally:
        _tell.reset(before)


def count_pass(images: Tensor, back: bool = True) -> None:
    """Tell of a pass, where somebody counts; one that could go back does where gradients are recorded."""
    tell = _tell.get()
    if tell is not None:
        tell(len(images), back and torch.is_grad_enabled())


@dataclasses.dataclass(frozen=True)
class Forward:
    """A model with the way attacks call it.

    Args:
        module: images to vectors.
        normalize: scale what it returns to unit length.
        precision: `bfloat16` runs the network under autocast; perturbation and loss stay in float32.
        run: another way to call the module, such as its compiled form, for the passes that repeat.
    """

    module: Callable[[Tensor], Tensor]
    normalize: bool = True
    precision: Precision = "float32"
    run: Callable[[Tensor], Tensor] | None = None

    def embed(self, images: Tensor, exact: bool = False, repeated: bool = False) -> Tensor:
        """Embeddings; `exact` keeps this pass out of autocast, `repeated` takes the other way to call the module."""
        half = self.precision == "bfloat16" and not exact
        call = self.run if repeated and not exact and self.run is not None else self.module
        with torch.autocast(images.device.type, torch.bfloat16, enabled=half):
            try:
                z = call(images)
            except RuntimeError as error:
                raise other_type(error, self.module, images) or error from None
        if not isinstance(z, Tensor) or z.shape[:1] != images.shape[:1] or z.ndim != 2:
            shape = tuple(z.shape) if isinstance(z, Tensor) else type(z).__name__
            raise ModelError(f"a model under attack must return one vector per image, (B, dim); it returned {shape}")
        count_pass(images, back=not isinstance(call, OneWay))
        return F.normalize(precise(z), dim=1) if self.normalize else precise(z)

    def gradient(self, images: Tensor, goal: BoundGoal, first: bool) -> tuple[Tensor, Tensor]:
        """Loss per group and its gradient with respect to the pixels, and to nothing else; no autocast reaches them."""
        with torch.enable_grad(), torch.autocast(images.device.type, enabled=False):
            x = images.detach().requires_grad_()
            z = self.embed(x, exact=first and goal.stationary, repeated=True)
            loss = goal.loss(z)
            found = torch.autograd.grad(loss.sum(), x, allow_unused=True)[0] if loss.requires_grad else None
        if found is None and torch.is_inference_mode_enabled():
            raise ModelError("attacks need gradients, and torch.inference_mode() has none; call them outside of it")
        if found is None:
            raise ModelError("this model passes no gradient to its pixels; use the gradient-free attack, square")
        return loss.detach(), found

    @torch.no_grad()
    def loss(self, images: Tensor, goal: BoundGoal) -> Tensor:
        """Loss per group."""
        return goal.loss(self.embed(images))

    def losses(self, images: Tensor, goal: BoundGoal, chunk: int | None) -> Tensor:
        """The same, `chunk` groups at a time."""
        return torch.cat([self.loss(images[rows], part) for rows, part in chunks(images, goal, chunk)])


def group_size(images: Tensor, goal: BoundGoal) -> int:
    """Images per group of a goal; refuses images that are not those it is bound to."""
    size = len(images) if goal.group is None else goal.group
    if len(images) % size:
        raise DataError(
            f"this goal is for groups of {size} images, but {len(images)} came; lay them out group by group"
        )
    expected = goal.images()
    if expected is not None and expected != len(images):
        raise DataError(f"this goal is bound to {expected} images, but {len(images)} came; bind it to their rows")
    return size


def chunks(images: Tensor, goal: BoundGoal, chunk: int | None) -> Iterator[tuple[slice, BoundGoal]]:
    """Rows of the images and the goal's part for `chunk` groups at a time."""
    size = group_size(images, goal)
    groups = len(images) // size
    if chunk is None or chunk >= groups:
        yield slice(0, len(images)), goal
        return
    if chunk < 1:
        raise DataError(f"chunk must be 1 or more groups, got {chunk}; leave it out for all at once")
    for start in range(0, groups, chunk):
        stop = min(start + chunk, groups)
        yield slice(start * size, stop * size), goal.take(slice(start, stop))


@dataclasses.dataclass(frozen=True)
class Crafted:
    """Perturbed images alone.

    Args:
        images: in the layout they came in.
        previous: per group, the loss one update before the last (the published ES:D is taken there).
        passes: how often the model was run forward and back; fewer than the budget's steps if every group was done.
    """

    images: Tensor
    previous: Tensor
    passes: int


@dataclasses.dataclass(frozen=True)
class Attacked:
    """Perturbed images and what they achieved.

    Args:
        images: in the layout they came in, inside ball and [0, 1].
        vectors: their embeddings, one per image.
        loss: of the goal, one value per group.
        measures: what the goal reports, one value per group and name.
        previous: per group, the loss one update before the last.
    """

    images: Tensor
    vectors: Tensor
    loss: Tensor
    measures: dict[str, Tensor]
    previous: Tensor


@torch.no_grad()
def judge(forward: Forward, images: Tensor, goal: BoundGoal, chunk: int | None, previous: Tensor) -> Attacked:
    """What finished images achieved, whose loss was `previous` one update before the last."""
    vectors, losses, measures = [], [], []
    for rows, part in chunks(images, goal, chunk):
        z = forward.embed(images[rows])
        vectors.append(z)
        losses.append(part.loss(z))
        measures.append(part.measure(z))
    require_finite(*vectors)
    merged = {name: torch.cat([m[name] for m in measures]) for name in measures[0]}
    return Attacked(images, torch.cat(vectors), torch.cat(losses), merged, previous)


def require_finite(*vectors: Tensor) -> None:
    """Refuse embeddings that nothing can be said of."""
    if not all(bool(z.isfinite().all()) for z in vectors):
        raise ModelError("embeddings contain NaN or inf; check the model's weights")


def worst(results: Sequence[Attacked], by: Sequence[Tensor] | None = None) -> Attacked:
    """For each group the result that hurts most: restarts, several goals, several attacks.

    Args:
        results: attacks on the same images; several goals must agree on the names of their measures.
        by: one value per group for each result, lowest kept, such as a hit; the losses when left out, which compares
            restarts of one goal but not different goals. NaN is never kept; where all are, the first result is.
    """
    values = torch.stack([result.loss for result in results] if by is None else list(by))
    chosen = values.masked_fill(values.isnan(), torch.inf).argmin(0)
    first = results[0]
    per_group = chosen.repeat_interleave(len(first.images) // len(chosen))
    return Attacked(
        images=_pick([r.images for r in results], per_group),
        vectors=_pick([r.vectors for r in results], per_group),
        loss=_pick([r.loss for r in results], chosen),
        measures={name: _pick([r.measures[name] for r in results], chosen) for name in first.measures},
        previous=_pick([r.previous for r in results], chosen),
    )


def _pick(options: list[Tensor], chosen: Tensor) -> Tensor:
    """Row i of option chosen[i]."""
    return torch.stack(options)[chosen, torch.arange(len(chosen), device=chosen.device)]


class Lagged:
    """Yes or no, asked again and again while work is queued on a device.

    On a GPU each answer is the one to the question before: by then it has been computed, and the work queued since
    keeps the device busy while the host reads it. Elsewhere the answer is to the question itself.
    """

    def __init__(self) -> None:
        self._answer: Tensor | None = None
        self._ready: torch.cuda.Event | None = None

    def ask(self, question: Tensor) -> bool:
        """An answer to this question, or to the one before.

        Args:
            question: a boolean scalar on the device.
        """
        if question.device.type != "cuda":
            return bool(question)
        if torch.cuda.is_current_stream_capturing():  # what is captured runs to the end
            return False
        before, ready = self._answer, self._ready
        self._answer = torch.empty((), dtype=torch.bool, pin_memory=True)
        self._answer.copy_(question, non_blocking=True)
        self._ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._ready.record()
        if before is None or ready is None:
            return False
        ready.synchronize()
        return bool(before)
