"""Random crops without rescaling."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast.data.augment.base import Augment, Draws, crop_at, draw_flips, draw_integers, margin, register
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

    def draw(self, count: int, side: int, generator: Generator) -> Draws:
        """Top, left and whether it is mirrored, one window per image."""
        room = margin(side + 2 * self.padding, self.side(side))
        top = draw_integers(count, room, generator)
        left = draw_integers(count, room, generator)
        return top, left, draw_flips(count, self.flip, generator)

    def view(self, images: Tensor, draws: Draws) -> Tensor:
        """The window of each image."""
        top, left, flipped = (drawn.to(images.device) for drawn in draws)
        padded = F.pad(images, (self.padding,) * 4)
        return crop_at(padded, self.side(images.shape[-1]), top, left, flipped)
