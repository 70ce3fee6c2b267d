"""The contract of an augmentation, the registry of the family and the crops they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Generator, Tensor

from holdfast.errors import DataError, RecipeError
from holdfast.registry import Registry

Draws: TypeAlias = tuple[Tensor, ...]
"""What is random about the views of some images, one row per image."""


@dataclass(frozen=True, kw_only=True)
class Augment(ABC):
    """What training sees of a batch of stored images; every image has its own random parameters.

    Args:
        size: side of the result in pixels; training fills in the model's input size when left out.
    """

    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise RecipeError(f"augment.size must be positive, got {self.size}")

    def sized(self, size: int) -> Augment:
        """The same augmentation with this size, unless it has one of its own."""
        return replace(self, size=size) if self.size is None else self

    def side(self, stored: int) -> int:
        """Side of the result for images of a side: the size, or that of the images."""
        return stored if self.size is None else self.size

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """A view of each image.

        Args:
            images: uint8, (n, 3, S, S), on any device.
            generator: source of every random draw; it may be on another device than the images.

        Returns:
            float32 in [0, 1], (n, 3, size, size), channels last in memory.
        """
        return self.view(images, self.draw(len(images), images.shape[-1], generator))

    @abstractmethod
    def draw(self, count: int, side: int, generator: Generator) -> Draws:
        """What is random about the views of `count` images of side × side: tensors with one row per image.

        Apart from `view`, so that some images of a batch can be made without the others.
        """

    @abstractmethod
    def view(self, images: Tensor, draws: Draws) -> Tensor:
        """The view that was drawn of each image."""


registry: Registry[Augment] = Registry("augment", Augment, "holdfast.data.augment")
register = registry.register


def to_float(images: Tensor) -> Tensor:
    """Bytes to [0, 1], channels last in memory."""
    return images.to(torch.float32, memory_format=torch.channels_last).div_(255)


def centre_crop(images: Tensor, size: int) -> Tensor:
    """The evaluation view: the middle of each image, float32 in [0, 1]; exact where the images have that size."""
    top = margin(images.shape[-1], size) // 2
    return to_float(images[:, :, top : top + size, top : top + size])


def crop_at(images: Tensor, size: int, top: Tensor, left: Tensor, flipped: Tensor) -> Tensor:
    """A size × size window of each image at its own place, mirrored where asked.

    Args:
        top, left: first row and column of each window.
        flipped: which windows to mirror left to right.
    """
    steps = torch.arange(size, device=images.device)
    rows = top[:, None] + steps
    columns = left[:, None] + torch.where(flipped[:, None], steps.flip(0), steps)
    pixels = images.permute(0, 2, 3, 1)
    picked = pixels[torch.arange(len(images), device=images.device)[:, None, None], rows[:, :, None], columns[:, None]]
    return to_float(picked.permute(0, 3, 1, 2))


def draw_integers(count: int, limit: int, generator: Generator) -> Tensor:
    """Whole numbers 0..limit, both included."""
    return torch.randint(limit + 1, (count,), generator=generator, device=generator.device)


def draw_flips(count: int, flip: bool, generator: Generator) -> Tensor:
    """Which images to mirror: each with probability one half, or none."""
    if not flip:
        return torch.zeros(count, dtype=torch.bool, device=generator.device)
    return torch.rand(count, generator=generator, device=generator.device) < 0.5


def margin(side: int, size: int) -> int:
    """How many pixels a crop leaves over along a side; an image smaller than the crop is refused."""
    room = side - size
    if room < 0:
        raise DataError(f"a crop of {size} px does not fit into images of {side} px; store them larger")
    return room
