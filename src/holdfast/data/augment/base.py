"""The contract of an augmentation, the registry of the family and the crops they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Generator, Tensor

from holdfast.data.ragged import RaggedImages
from holdfast.errors import RecipeError
from holdfast.registry import Registry
from holdfast.view import View

Draws: TypeAlias = tuple[Tensor, ...]
"""What is random about the views of some images, one row per image."""


@dataclass(frozen=True, kw_only=True)
class Augment(ABC):
    """What training sees of a batch of stored images; every image has its own shape and its own random parameters.

    Args:
        size: side of the result in pixels; training fills in the model's input size when left out.
    """

    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise RecipeError(f"augment.size must be positive, got {self.size}")

    def fitted(self, view: View) -> Augment:
        """The same augmentation for a model's view: of its size, unless it has one of its own."""
        size = self.size or view.size
        if size > view.canvas + 2 * self.room:
            raise RecipeError(
                f"augment.size ({size}) does not fit into images of {view.canvas} px; raise model.canvas or lower it"
            )
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

    @abstractmethod
    def draw(self, count: int, generator: Generator) -> Draws:
        """What is random about the views of `count` images of any shape: tensors with one row per image.

        Apart from `view`, so that some images of a batch can be made without the others.
        """

    @abstractmethod
    def view(self, images: RaggedImages, draws: Draws) -> Tensor:
        """The view that was drawn of each image."""

    @property
    def side(self) -> int:
        """Side of the result."""
        if self.size is None:
            raise RecipeError("augment.size: which size? a recipe's model fills it in; elsewhere, give one")
        return self.size


registry: Registry[Augment] = Registry("augment", Augment, "holdfast.data.augment")
register = registry.register


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


def draw_numbers(count: int, columns: int, generator: Generator) -> Tensor:
    """Uniform numbers in [0, 1), a row for each image."""
    return torch.rand(count, columns, generator=generator, device=generator.device)


def place(draw: Tensor, room: Tensor) -> Tensor:
    """A uniform number as a whole one of 0..room, both included; rooms are whole numbers of any dtype."""
    return torch.minimum((draw * (room + 1)).floor(), room.to(draw.dtype)).clamp(min=0)
