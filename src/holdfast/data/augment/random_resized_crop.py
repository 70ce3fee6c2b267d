"""Random crops of random area and aspect ratio, resized."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast.data.augment.base import Augment, Draws, draw_numbers, place, register
from holdfast.data.ragged import RaggedImages
from holdfast.errors import RecipeError

ATTEMPTS = 10
"""Tries at a window that fits, as is customary; after that the middle of the image is taken."""


@register("random-resized-crop")
@dataclass(frozen=True, kw_only=True)
class RandomResizedCrop(Augment):
    """A window of random area and aspect ratio at a random place, resized, in half of the images mirrored.

    Area is uniform in `scale` times the image's own, the ratio log-uniform in `ratio`, the place uniform; resized
    bilinearly and antialiased. The same as torchvision's transform of that name, on the stored image.

    Args:
        size: side of the result in pixels; training fills in the model's input size when left out.
        scale: least and greatest share of the image's area.
        ratio: least and greatest width over height.
        flip: mirror left to right with probability one half; turn off where that changes the class, as for letters.

    Relations: `random-crop` keeps the scale.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise RecipeError(f"augment.scale must rise within (0, 1], got {list(self.scale)}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise RecipeError(f"augment.ratio must be positive and rise, got {list(self.ratio)}")

    def draw(self, count: int, generator: Generator) -> Draws:
        """Area and ratio for every attempt, the place, and mirrored or not, as numbers in [0, 1)."""
        return (draw_numbers(count, 2 * ATTEMPTS + 3, generator),)

    def view(self, images: RaggedImages, draws: Draws) -> Tensor:
        """The window of each image, resized."""
        numbers = draws[0].to(images.device)
        windows = self.windows(images.heights, images.widths, numbers)
        mirrored = (numbers[:, -1] < 0.5) & self.flip
        return resample(images, self.side, windows, mirrored, self._longest(images))

    def windows(self, heights: Tensor, widths: Tensor, numbers: Tensor) -> Tensor:
        """Top, left, height and width of each window, in whole pixels.

        Args:
            heights: of the images.
            widths: of the images.
            numbers: what `draw` drew for each.
        """
        full = heights[:, None].to(numbers.dtype), widths[:, None].to(numbers.dtype)
        shares, ratios = numbers[:, :ATTEMPTS], numbers[:, ATTEMPTS : 2 * ATTEMPTS]
        low, high = self.scale
        area = (low + (high - low) * shares) * full[0] * full[1]
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        ratio = (low + (high - low) * ratios).exp()
        sides = (area / ratio).sqrt().round(), (area * ratio).sqrt().round()
        fits = (sides[0] >= 1) & (sides[0] <= full[0]) & (sides[1] >= 1) & (sides[1] <= full[1])
        first, none = fits.float().argmax(1, keepdim=True), ~fits.any(1, keepdim=True)
        # Where nothing fits, the largest window of the nearest ratio that is allowed, in the middle.
        spare = (
            torch.minimum(full[0], (full[1] / self.ratio[0]).round().clamp(min=1)),
            torch.minimum(full[1], (full[0] * self.ratio[1]).round().clamp(min=1)),
        )
        placed = []
        draws = numbers[:, -3:-2], numbers[:, -2:-1]
        for whole, side, last, draw in zip(full, sides, spare, draws, strict=True):
            extent = torch.where(none, last, side.gather(1, first))
            room = whole - extent
            placed += [torch.where(none, (room / 2).floor(), place(draw, room)), extent]
        top, height, left, width = placed
        return torch.cat((top, left, height, width), 1)

    def _longest(self, images: RaggedImages) -> int:
        """No side of a window is longer: it lies in its image, and is no more oblong than `ratio` allows."""
        oblong = max(self.ratio[1], 1 / self.ratio[0], 1.0)
        return min(images.longest, math.ceil((images.shorter + 0.5) * oblong + 0.5))


def resample(images: RaggedImages, size: int, windows: Tensor, mirrored: Tensor, longest: int) -> Tensor:
    """Each image's window at size × size: cropping it and resizing it bilinearly, antialiased.

    Args:
        images: the images.
        size: side of the results.
        windows: top, left, height and width of each.
        mirrored: which results to mirror left to right.
        longest: no window is higher or wider.
    """
    if images.device.type == "cpu":
        return one_by_one(images, size, windows, mirrored)
    return by_products(images, size, windows, mirrored, longest)


def one_by_one(images: RaggedImages, size: int, windows: Tensor, mirrored: Tensor) -> Tensor:
    """By torch's own resizing, which is the fastest on a CPU."""
    out = torch.empty((len(images), size, size, 3)).permute(0, 3, 1, 2)
    places = windows.long().tolist()
    for row, (image, (top, left, height, width)) in enumerate(zip(images.arrays(), places, strict=True)):
        window = torch.from_numpy(image)[top : top + height, left : left + width].permute(2, 0, 1)[None].float()
        out[row] = F.interpolate(window, (size, size), mode="bilinear", antialias=True)[0]
    return torch.where(mirrored[:, None, None, None], out.flip(3), out).div_(255).clamp_(0, 1)


def by_products(images: RaggedImages, size: int, windows: Tensor, mirrored: Tensor, longest: int) -> Tensor:
    """By products with matrices that hold the weights of the pixels: one call for all images, whatever their shapes."""
    top, left, height, width = windows.unbind(1)
    steps = torch.arange(longest, device=images.device)
    rows = torch.minimum((top.long()[:, None] + steps), images.heights[:, None] - 1)
    columns = torch.minimum((left.long()[:, None] + steps), images.widths[:, None] - 1)
    down, across = _weights(height, size, longest), _weights(width, size, longest)
    across = torch.where(mirrored[:, None, None], across.flip(1), across)
    pixels = images.pick(rows, columns).to(down.dtype, memory_format=torch.contiguous_format)
    sampled = down[:, None] @ pixels @ across.mT[:, None]
    return sampled.to(torch.float32, memory_format=torch.channels_last).div_(255).clamp_(0, 1)


def _weights(extents: Tensor, size: int, longest: int) -> Tensor:
    """How much each pixel of a window's side counts in each pixel of the result, (n, size, longest)."""
    scale = (extents / size)[:, None, None]
    centres = (torch.arange(size, device=extents.device) + 0.5)[:, None] * scale
    pixels = torch.arange(longest, device=extents.device) + 0.5
    reach = scale.clamp(min=1)  # when shrinking, a pixel of the result averages over as many as it stands for
    weights = (1 - (pixels - centres).abs() / reach).clamp(min=0)
    weights = torch.where(pixels < extents[:, None, None], weights, 0)
    weights = weights / weights.sum(2, keepdim=True)
    return weights.half() if extents.is_cuda else weights
