"""What training sees of the stored images: batched crops and flips on the device."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast.config import builder
from holdfast.data.ragged import RaggedImages
from holdfast.errors import RecipeError
from holdfast.registry import Registry
from holdfast.view import Fit, View


@dataclass(frozen=True, kw_only=True)
class Augment(ABC):
    """What training sees of a batch of stored images; every image has its own shape and its own random parameters.

    Args:
        size: side of the result in pixels; training fills in the model's input size when left out.
    """

    size: int | None = None
    numbers: ClassVar[int] = 0
    """Uniform numbers that the view of an image depends on."""

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise RecipeError(f"augment.size must be positive, got {self.size}")

    def fitted(self, view: View) -> Augment:
        """The same augmentation for a model's view: of its size, unless it has one of its own."""
        size = self.size or view.size
        if size > view.canvas + 2 * self.room:
            raise RecipeError(f"augment.size ({size}) does not fit into images of {view.canvas} px; raise model.canvas")
        return replace(self, size=size)

    @property
    def room(self) -> int:
        """Pixels that are added around an image before it is cropped."""
        return 0

    def __call__(self, images: RaggedImages, generator: Generator) -> Tensor:
        """A view of each image.

        Args:
            images: stored images, on any device.
            generator: source of every random draw; it may be on another device than the images.

        Returns:
            float32 in [0, 1], (n, 3, size, size), channels last in memory.
        """
        return self.view(images, self.draw(len(images), generator))

    def draw(self, count: int, generator: Generator) -> Tensor:
        """What is random about the views of `count` images of any shape: a row of numbers in [0, 1) for each.

        Apart from `view`, so that some images of a batch can be made without the others.
        """
        return torch.rand(count, self.numbers, generator=generator, device=generator.device)

    @abstractmethod
    def view(self, images: RaggedImages, draws: Tensor) -> Tensor:
        """The view that was drawn of each image."""

    @property
    def side(self) -> int:
        """Side of the result."""
        if self.size is None:
            raise RecipeError("augment.size: which size? a recipe's model fills it in; elsewhere, give one")
        return self.size


registry: Registry[Augment] = Registry("augment", Augment)
register = registry.register
build, names = builder(registry), registry.names


def to_float(images: Tensor) -> Tensor:
    """Bytes to [0, 1], channels last in memory."""
    return images.to(torch.float32, memory_format=torch.channels_last).div_(255)


def centre_crop(images: RaggedImages, view: View) -> Tensor:
    """The evaluation view of images at its canvas: the middle of each, float32 in [0, 1]."""
    images.refuse_smaller(view.size)
    rooms = images.heights - view.size, images.widths - view.size
    # Halves go to the even number, as in torchvision; squashed images are cut where they always were.
    top, left = (room // 2 if view.fit == "squash" else (room / 2).round().long() for room in rooms)
    steps = torch.arange(view.size, device=images.device)
    return to_float(images.pick(top[:, None] + steps, left[:, None] + steps))


def place(draw: Tensor, room: Tensor) -> Tensor:
    """A uniform number as a whole one of 0..room, both included; rooms are whole numbers of any dtype."""
    return torch.minimum((draw * (room + 1)).floor(), room.to(draw.dtype)).clamp(min=0)


@register("none")
@dataclass(frozen=True, kw_only=True)
class CentreCrop(Augment):
    """The middle of each image, as in evaluation; nothing is drawn.

    Args:
        size: side of the result in pixels; training fills in the model's input size when left out.

    Requirements: stored images of at least that size.
    Relations: `random-crop` for small images, `random-resized-crop` for photographs.
    """

    fit: ClassVar[Fit] = "crop"

    def fitted(self, view: View) -> Augment:
        """The same for a model's view, cut where evaluation cuts it."""
        fitted = super().fitted(view)
        return SquashedCentreCrop(size=fitted.size) if view.fit == "squash" else fitted

    def view(self, images: RaggedImages, draws: Tensor) -> Tensor:
        """The centre crop."""
        return centre_crop(images, View(self.side, fit=self.fit))


class SquashedCentreCrop(CentreCrop):
    """The middle of images that were squashed to the canvas; a recipe says so of the model."""

    fit: ClassVar[Fit] = "squash"


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
    numbers: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.padding < 0:
            raise RecipeError(f"augment.padding must not be negative, got {self.padding}")

    @property
    def room(self) -> int:
        """The padding."""
        return self.padding

    def view(self, images: RaggedImages, draws: Tensor) -> Tensor:
        """The window of each image, from a number for its top, for its left and for mirroring."""
        images.refuse_smaller(self.side, self.padding)
        down, across, mirror = draws.to(images.device).unbind(1)
        over = 2 * self.padding - self.side
        top = place(down, images.heights + over).long() - self.padding
        left = place(across, images.widths + over).long() - self.padding
        steps = torch.arange(self.side, device=images.device)
        columns = torch.where((mirror < 0.5)[:, None] & self.flip, steps.flip(0), steps)
        return to_float(images.pick(top[:, None] + steps, left[:, None] + columns, outside=self.padding > 0))


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
        scale: least and greatest fraction of the image's area.
        ratio: least and greatest width over height.
        flip: mirror left to right with probability one half; turn off where that changes the class, as for letters.

    Relations: `random-crop` keeps the scale.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True
    numbers: ClassVar[int] = 2 * ATTEMPTS + 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise RecipeError(f"augment.scale must rise within (0, 1], got {list(self.scale)}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise RecipeError(f"augment.ratio must be positive and rise, got {list(self.ratio)}")

    def view(self, images: RaggedImages, draws: Tensor) -> Tensor:
        """The window of each image, resized."""
        draws = draws.to(images.device)
        windows = self.windows(images.heights, images.widths, draws)
        mirrored = (draws[:, -1] < 0.5) & self.flip
        if images.device.type == "cpu":
            return one_by_one(images, self.side, windows, mirrored)
        return by_products(images, self.side, windows, mirrored, self._longest(images))

    def _longest(self, images: RaggedImages) -> int:
        """No side of a window is longer: it lies in its image, and is no more oblong than `ratio` allows."""
        oblong = max(self.ratio[1], 1 / self.ratio[0], 1.0)
        return min(images.longest, math.ceil((images.shorter + 0.5) * oblong + 0.5))

    def windows(self, heights: Tensor, widths: Tensor, numbers: Tensor) -> Tensor:
        """Top, left, height and width of each window, in whole pixels.

        Args:
            heights: of the images.
            widths: of the images.
            numbers: what `draw` drew for each: area and ratio for every attempt, then the place.
        """
        full = torch.stack((heights, widths), 1).to(numbers.dtype)
        areas, ratios = numbers[:, :ATTEMPTS], numbers[:, ATTEMPTS : 2 * ATTEMPTS]
        low, high = self.scale
        area = (low + (high - low) * areas) * full[:, :1] * full[:, 1:]
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        ratio = (low + (high - low) * ratios).exp()
        sides = torch.stack((area / ratio, area * ratio), 2).sqrt().round()
        fits = ((sides >= 1) & (sides <= full[:, None])).all(2)
        first, none = fits.float().argmax(1), ~fits.any(1, keepdim=True)
        # Where nothing fits, the largest window of the nearest ratio that is allowed, in the middle.
        spare = torch.stack((full[:, 1] / self.ratio[0], full[:, 0] * self.ratio[1]), 1).round().clamp(min=1)
        extent = torch.where(none, torch.minimum(full, spare), sides.take_along_dim(first[:, None, None], 1)[:, 0])
        room = full - extent
        corner = torch.where(none, (room / 2).floor(), place(numbers[:, -3:-1], room))
        return torch.cat((corner, extent), 1)


def one_by_one(images: RaggedImages, size: int, windows: Tensor, mirrored: Tensor) -> Tensor:
    """Each image's window at size × size, by torch's own resizing, which is the fastest on a CPU.

    Args:
        images: the images.
        size: side of the results.
        windows: top, left, height and width of each.
        mirrored: which results to mirror left to right.
    """
    out = torch.empty((len(images), size, size, 3)).permute(0, 3, 1, 2)
    places = windows.long().tolist()
    for row, (image, (top, left, height, width)) in enumerate(zip(images.arrays(), places, strict=True)):
        window = torch.from_numpy(image)[top : top + height, left : left + width].permute(2, 0, 1)[None].float()
        out[row] = F.interpolate(window, (size, size), mode="bilinear", antialias=True)[0]
    return torch.where(mirrored[:, None, None, None], out.flip(3), out).div_(255).clamp_(0, 1)


def by_products(images: RaggedImages, size: int, windows: Tensor, mirrored: Tensor, longest: int) -> Tensor:
    """As `one_by_one`, by products with matrices of the pixels' weights: one call for images of all shapes.

    No window is higher or wider than `longest`.
    """
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
