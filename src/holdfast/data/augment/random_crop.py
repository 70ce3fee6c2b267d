"""Random crops without rescaling."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from holdfast.data.augment.base import Augment, Draws, draw_numbers, place, register, to_float
from holdfast.data.ragged import RaggedImages
from holdfast.errors import RecipeError


@register("random-crop")
@dataclass(frozen=True, kw_only=True)
class RandomCrop(Augment):
    """A window at a random place, in half of the images mirrored; pixels are copied, never interpolated.

    Args:
        size: side of the window in pixels; training fills in the model's input size when left out.
        padding: black pixels around the image before cropping.
        flip: mirror left to right with probability one half; turn off where that changes the class, as for letters.

    Requirements: stored images, padding included, of at least that size.
    Relations: `random-resized-crop` also varies scale and aspect ratio.
    """

    padding: int = 0
    flip: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.padding < 0:
            raise RecipeError(f"augment.padding must not be negative, got {self.padding}")

    @property
    def room(self) -> int:
        """The padding."""
        return self.padding

    def draw(self, count: int, generator: Generator) -> Draws:
        """Three numbers an image: from the top, from the left, mirrored or not."""
        return (draw_numbers(count, 3, generator),)

    def view(self, images: RaggedImages, draws: Draws) -> Tensor:
        """The window of each image."""
        images.refuse_smaller(self.side, self.padding)
        down, across, mirror = draws[0].to(images.device).unbind(1)
        over = 2 * self.padding - self.side
        top, left = (
            place(draw, sides + over).long() - self.padding
            for draw, sides in ((down, images.heights), (across, images.widths))
        )
        steps = torch.arange(self.side, device=images.device)
        columns = torch.where((mirror < 0.5)[:, None] & self.flip, steps.flip(0), steps)
        return to_float(images.pick(top[:, None] + steps, left[:, None] + columns, outside=self.padding > 0))
