"""Random crops without rescaling."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast.data.augment.base import Augment, crop_at, draw_flips, draw_integers, margin, register
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

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """One window per image."""
        size, count, device = self.side(images), len(images), images.device
        images = F.pad(images, (self.padding,) * 4)
        room = margin(images, size)
        top = draw_integers(count, room, generator, device)
        left = draw_integers(count, room, generator, device)
        return crop_at(images, size, top, left, draw_flips(count, self.flip, generator, device))
