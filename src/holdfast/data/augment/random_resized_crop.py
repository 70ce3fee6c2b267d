"""Random crops of random area and aspect ratio, resized."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast.data.augment.base import Augment, Draws, draw_flips, register, to_float
from holdfast.errors import RecipeError

ATTEMPTS = 10
"""Tries at a window that fits, as is customary; after that the whole image is taken."""


@register("random-resized-crop")
@dataclass(frozen=True, kw_only=True)
class RandomResizedCrop(Augment):
    """A window of random area and aspect ratio at a random place, resized bilinearly, in half of the images mirrored.

    Area is uniform in `scale` times the image's, the ratio log-uniform in `ratio`, the place uniform. Windows have
    whole-pixel edges and nothing outside a window leaks into the result. Shrinking by more than about two would need
    smoothing that this does not do: store the images at up to twice `size`.

    Args:
        size: side of the result in pixels; training fills in the model's input size when left out.
        scale: least and greatest share of the image's area.
        ratio: least and greatest width over height.
        flip: mirror left to right with probability one half; turn off where that changes the class, as for letters.

    Relations: `random-crop` keeps the scale.
    """

    scale: tuple[float, float] = (0.2, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise RecipeError(f"augment.scale must rise within (0, 1], got {list(self.scale)}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise RecipeError(f"augment.ratio must be positive and rise, got {list(self.ratio)}")

    def draw(self, count: int, side: int, generator: Generator) -> Draws:
        """The window of each image and whether it is mirrored."""
        return self.windows(count, side, generator), draw_flips(count, self.flip, generator)

    def view(self, images: Tensor, draws: Draws) -> Tensor:
        """The window of each image, resized."""
        windows, flipped = (drawn.to(images.device) for drawn in draws)
        return resample(images, self.side(images.shape[-1]), windows, flipped)

    def windows(self, count: int, side: int, generator: Generator) -> Tensor:
        """Top, left, height and width of a window in each of `count` images of side × side, in whole pixels."""
        draws = torch.rand(4, count, ATTEMPTS, generator=generator, device=generator.device)
        low, high = self.scale
        area = (low + (high - low) * draws[0]) * side**2
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        ratio = (low + (high - low) * draws[1]).exp()
        width, height = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
        fits = (width >= 1) & (width <= side) & (height >= 1) & (height <= side)
        first = fits.float().argmax(1, keepdim=True)  # the first that fits
        whole = ~fits.any(1)
        width, height = (torch.where(whole, side, sides.gather(1, first).squeeze(1)) for sides in (width, height))
        top, left = (
            (draw.gather(1, first).squeeze(1) * (side - extent + 1)).floor().clamp(max=side - extent)
            for draw, extent in ((draws[2], height), (draws[3], width))
        )
        return torch.stack((top, left, height, width), 1)


def resample(images: Tensor, size: int, windows: Tensor, flipped: Tensor) -> Tensor:
    """Each image's window at size × size; equal to cropping it and interpolating bilinearly."""
    side = images.shape[-1]
    steps = (torch.arange(size, device=images.device) + 0.5) / size
    top, left, height, width = windows[:, :, None].unbind(1)
    across = torch.where(flipped[:, None], 1 - steps, steps)
    # Pixel centres in the source, held inside the window so that its edge repeats instead of what lies beyond.
    y = torch.minimum((top + steps * height - 0.5).maximum(top), top + height - 1)
    x = torch.minimum((left + across * width - 0.5).maximum(left), left + width - 1)
    grid = torch.stack((x[:, None, :].expand(-1, size, -1), y[:, :, None].expand(-1, -1, size)), 3)
    grid = (2 * grid + 1) / side - 1
    sampled = F.grid_sample(to_float(images), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return sampled.contiguous(memory_format=torch.channels_last)
