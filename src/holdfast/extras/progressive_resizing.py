"""Smaller images over the first part of training."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.attacks.frozen import frozen
from holdfast.errors import RecipeError, reason
from holdfast.extras.base import Extra, Inner, register
from holdfast.models import Embedder
from holdfast.regimes import Batch, Regime, StepContext, StepResult


@register("progressive-resizing")
class ProgressiveResizing(Extra):
    """Learn from smaller images over the first part of training; as many passes, each over fewer pixels.

    A batch is scaled down (bilinear, antialiased) before anything sees it, so attacks, terms and teachers named before
    this one work at that size, with the same ε. 128 of 224 px are a third of the pixels. Logged passes count
    images of any size. On a GPU a network is compiled, and its steps captured, once for each size.

    Args:
        size: pixels along each side.
        fraction: of training.

    Requirements: a backbone that takes images of any size, as convolutional ones do. Name it last, after `awp` too.
    Relations: `model.size` is what the model sees in the rest of training and ever after.
    Reference: beyond the papers; for robust classifiers, Wong et al., Fast is better than free, ICLR 2020.
    """

    in_words = "with smaller images first"

    def __init__(self, size: int = 128, fraction: float = 0.7) -> None:
        if size < 1:
            raise RecipeError(f"extras: size of progressive-resizing is a number of pixels, got {size}")
        if not 0 < fraction <= 1:
            raise RecipeError(
                f"extras: fraction of progressive-resizing is a part of training in (0, 1], got {fraction}"
            )
        self.size, self.fraction = size, fraction

    def check(self, regime: Regime) -> None:
        """Any regime learns from smaller images."""

    def phase(self, step: int, total: int) -> int | None:
        """Which of the two sizes."""
        return int(self._small(step, total))

    def prepare(self, model: Embedder) -> None:
        """Refuse a size that is not smaller, and a backbone that takes only one."""
        if self.size >= model.size:
            raise RecipeError(
                f"extras: progressive-resizing to {self.size} px needs a model.size above that, not {model.size}"
            )
        try:
            with frozen(model), torch.no_grad():
                model(model.mean.new_zeros(1, 3, self.size, self.size))
        except (RuntimeError, ValueError, AssertionError) as error:
            raise RecipeError(
                f"extras: this backbone does not take images of {self.size} px ({reason(error)}); choose another size, "
                "or leave out progressive-resizing"
            ) from error

    def step(self, ctx: StepContext, batch: Batch, inner: Inner) -> StepResult:
        """With a smaller batch."""
        if not self._small(ctx.step, ctx.total):
            return inner(batch)
        make = batch.make
        smaller = None if make is None else lambda rows: self._resized(make(rows))
        return inner(dataclasses.replace(batch, images=self._resized(batch.images), make=smaller))

    def _small(self, step: int, total: int) -> bool:
        return step < self.fraction * total

    def _resized(self, images: Tensor) -> Tensor:
        return F.interpolate(images, (self.size, self.size), mode="bilinear", antialias=True).clamp(0, 1)
