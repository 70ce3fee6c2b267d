"""What training sees of the stored images: batched crops and flips on the device."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Generator, Tensor

from holdfast.config import builder
from holdfast.data.ragged import RaggedImages
from holdfast.data.resampling import Pixels, places, view_windows
from holdfast.errors import RecipeError
from holdfast.registry import Registry
from holdfast.view import AtMost, Fit, View


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
        if size > view.canvas + 2 * self.room and self.stored(view) == view:
            raise RecipeError(f"augment.size ({size}) does not fit into images of {view.canvas} px; raise model.canvas")
        return replace(self, size=size)

    def stored(self, view: View) -> View:
        """How images are kept for it, given a model's view."""
        return view

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
        return torch.rand(count, self.numbers, generator=generator, device=generator.device, dtype=torch.float32)

    @abstractmethod
    def view(self, images: RaggedImages, draws: Tensor) -> Tensor:
        """The view that was drawn of each image."""

    @property
    def side(self) -> int:
        """Side of the result."""
        if self.size is None:
            raise RecipeError("augment.size: which size? a recipe's model fills it in; elsewhere, give one")
        return self.size


class WindowAugment(Augment):
    """An augmentation whose view of an image is made of one window: no more of a file needs to be resized."""

    def view(self, images: RaggedImages, draws: Tensor) -> Tensor:
        """The view that was drawn of each image."""
        draws = draws.to(images.device)
        return self.cut(images, self.windows(images.heights, images.widths, draws), draws)

    @abstractmethod
    def windows(self, heights: Tensor, widths: Tensor, draws: Tensor) -> Tensor:
        """Top, left, height and width of each window, in whole pixels; it may lie in what `room` adds.

        Args:
            heights: of the images.
            widths: of the images.
            draws: what `draw` drew for each.
        """

    @abstractmethod
    def cut(self, images: RaggedImages, windows: Tensor, draws: Tensor) -> Tensor:
        """The view of each image, made of its window; everything is on one device."""


registry: Registry[Augment] = Registry("augment", Augment)
register = registry.register
build, names = builder(registry), registry.names


def to_float(images: Tensor) -> Tensor:
    """Bytes to [0, 1], channels last in memory."""
    return images.to(torch.float32, memory_format=torch.channels_last).div_(255)


def centre_crop(images: RaggedImages, view: View) -> Tensor:
    """The evaluation view of images at its canvas: the middle of each, float32 in [0, 1]."""
    augment = CentreCrop(size=view.size).fitted(view)
    return augment.view(images, torch.empty(len(images), 0))


def copied(images: RaggedImages, windows: Tensor, side: int, mirrored: Tensor | None = None, room: int = 0) -> Tensor:
    """Windows of side × side pixels as they are, some mirrored left to right, in images with black room around them."""
    images.refuse_smaller(side, room)
    steps = torch.arange(side, device=images.device)
    columns = steps if mirrored is None else torch.where(mirrored[:, None], steps.flip(0), steps)
    top, left = windows.long()[:, :2].unbind(1)
    return to_float(images.pick(top[:, None] + steps, left[:, None] + columns, outside=room > 0))


def place(draw: Tensor, room: Tensor) -> Tensor:
    """A uniform number as a whole one of 0..room, both included; rooms are whole numbers of any dtype."""
    return torch.minimum((draw * (room + 1)).floor(), room.to(draw.dtype)).clamp(min=0)


@register("none")
@dataclass(frozen=True, kw_only=True)
class CentreCrop(WindowAugment):
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

    def windows(self, heights: Tensor, widths: Tensor, draws: Tensor) -> Tensor:
        """The middle of each image."""
        rooms = torch.stack((heights, widths), 1) - self.side
        # Halves go to the even number, as in torchvision; squashed images are cut where they always were.
        corner = rooms // 2 if self.fit == "squash" else (rooms / 2).round().long()
        return torch.cat((corner, torch.full_like(corner, self.side)), 1)

    def cut(self, images: RaggedImages, windows: Tensor, draws: Tensor) -> Tensor:
        """The windows as they are."""
        return copied(images, windows, self.side)


class SquashedCentreCrop(CentreCrop):
    """The middle of images that were squashed to the canvas; a recipe says so of the model."""

    fit: ClassVar[Fit] = "squash"


@register("random-crop")
@dataclass(frozen=True, kw_only=True)
class RandomCrop(WindowAugment):
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

    def windows(self, heights: Tensor, widths: Tensor, draws: Tensor) -> Tensor:
        """A window of each image, from a number for its top and one for its left."""
        rooms = torch.stack((heights, widths), 1) + 2 * self.padding - self.side
        corner = place(draws[:, :2], rooms).long() - self.padding
        return torch.cat((corner, torch.full_like(corner, self.side)), 1)

    def cut(self, images: RaggedImages, windows: Tensor, draws: Tensor) -> Tensor:
        """The windows as they are, mirrored by the third number."""
        return copied(images, windows, self.side, (draws[:, 2] < 0.5) & self.flip, self.padding)


ATTEMPTS = 10
"""Tries at a window that fits, as is customary; after that the middle of the image is taken."""


@register("random-resized-crop")
@dataclass(frozen=True, kw_only=True)
class RandomResizedCrop(WindowAugment):
    """A window of random area and aspect ratio at a random place, resized, in half of the images mirrored.

    Area is uniform in `scale` times the image's own, the ratio log-uniform in `ratio`, the place uniform; resized
    bilinearly and antialiased. The same as torchvision's transform of that name, on the stored image.

    Args:
        size: side of the result in pixels; training fills in the model's input size when left out.
        canvas: windows are cut from the photographs as they are, those whose shorter side is longer than this shrunk
            to it; when left out, from images brought to the model's canvas, which takes less memory and time and shows
            less detail in small windows.
        scale: least and greatest fraction of the image's area.
        ratio: least and greatest width over height.
        flip: mirror left to right with probability one half; turn off where that changes the class, as for letters.

    Relations: `random-crop` keeps the scale.
    """

    canvas: int | None = None
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

    def stored(self, view: View) -> View:
        """As the model's view has them, or larger."""
        if self.canvas is None:
            return view
        if view.fit != "crop":
            raise RecipeError(f"augment.canvas needs model.fit: crop, not {view.fit}; leave it out")
        if self.canvas < view.canvas:
            raise RecipeError(f"augment.canvas ({self.canvas}) must not be smaller than model.canvas ({view.canvas})")
        return AtMost(view.size, self.canvas, view.fit, view.interpolation)

    def cut(self, images: RaggedImages, windows: Tensor, draws: Tensor) -> Tensor:
        """The window of each image, resized."""
        mirrored = self.mirrored(draws)
        if images.device.type != "cpu":
            return by_products(images, self.side, windows, mirrored, self._longest(images))
        out = self.empty(len(images))
        view_windows(images.arrays(), places(windows), mirrored.tolist(), out)
        return out

    def cut_each(self, parts: Sequence[Pixels], draws: Tensor, out: Tensor) -> None:
        """As `cut`, of images on a CPU of which there is no more than the window, into a given place."""
        whole = [(0, 0, part.shape[0], part.shape[1]) for part in parts]
        view_windows(parts, whole, self.mirrored(draws).tolist(), out)

    def empty(self, count: int) -> Tensor:
        """Room for the views of so many images on a CPU."""
        return torch.empty((count, 3, self.side, self.side), memory_format=torch.channels_last)

    def mirrored(self, draws: Tensor) -> Tensor:
        """Which images are mirrored."""
        return (draws[:, -1] < 0.5) & self.flip

    def _longest(self, images: RaggedImages) -> int:
        """No side of a window is longer: it lies in its image, and is no more oblong than `ratio` allows."""
        oblong = max(self.ratio[1], 1 / self.ratio[0], 1.0)
        return min(images.longest, math.ceil((images.shorter + 0.5) * oblong + 0.5))

    def windows(self, heights: Tensor, widths: Tensor, draws: Tensor) -> Tensor:
        """A window of each image, from area and ratio for every attempt, then the place."""
        full = torch.stack((heights, widths), 1).to(draws.dtype)
        areas, ratios = draws[:, :ATTEMPTS], draws[:, ATTEMPTS : 2 * ATTEMPTS]
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
        corner = torch.where(none, (room / 2).floor(), place(draws[:, -3:-1], room))
        return torch.cat((corner, extent), 1)


def by_products(images: RaggedImages, size: int, windows: Tensor, mirrored: Tensor, longest: int) -> Tensor:
    """As `view_windows`, by products with matrices of the pixels' weights: one call for images of all shapes.

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
