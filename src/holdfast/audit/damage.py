"""What happens to images without an enemy: twelve kinds of damage, each at five strengths, in batches on any device.

Strengths are those of ImageNet-C where it has the kind (Hendrycks and Dietterich, ICLR 2019). What acts on pixels would
be far worse on a small image: there, strengths are the same authors' for 32 px (CIFAR-10-C), and between the two sizes
geometric means of both. Lengths of all other kinds are fractions of the image.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast.audit.jpeg import jpeg
from holdfast.audit.overlay import overlay
from holdfast.mining.draw import sample

STRENGTHS = 5
LARGE, SMALL = 224, 32
"""Sides of the images of ImageNet-C and CIFAR-10-C, in pixels."""
AT_ONCE = 64
"""Images that are damaged together, to bound memory."""
NUMBERS = 48
"""Drawn for each image: where it is cut, which way it turns, what is written on it."""
FLIPS = ("mirrored", "a quarter turn to the left", "a quarter turn to the right", "a half turn", "top to bottom")
"""In place of strengths, which a flip has not: what a camera's mark of orientation does that is lost or misread."""


def numbers(images: Tensor, generator: Generator | None) -> Tensor:
    """Some numbers in [0, 1) for each image."""
    return sample(torch.rand, (len(images), NUMBERS), device=images.device, generator=generator)


def field(images: Tensor, generator: Generator | None) -> Tensor:
    """A normal number for each pixel and channel."""
    return sample(torch.randn, images.shape, device=images.device, generator=generator)


@dataclasses.dataclass(frozen=True)
class Damage:
    """One kind.

    Args:
        apply: images in [0, 1], one of the strengths and what was drawn → damaged images, perhaps beyond [0, 1].
        strengths: at 224 px and, where `small` is empty, at every size.
        small: at 32 px.
        draw: what is random; the same for all strengths, so that they differ in nothing else.
    """

    apply: Callable[[Tensor, Any, Tensor], Tensor]
    strengths: tuple[Any, ...]
    small: tuple[float, ...] = ()
    draw: Callable[[Tensor, Generator | None], Tensor] = numbers

    def at(self, size: int) -> tuple[Any, ...]:
        """The five strengths for images of a size; under 32 px those for 32."""
        if not self.small:
            return self.strengths
        part = max(0.0, math.log(size / SMALL) / math.log(LARGE / SMALL))
        return tuple(low ** (1 - part) * high**part for low, high in zip(self.small, self.strengths, strict=True))


@torch.no_grad()
def damaged(
    kind: str, images: Tensor, generator: Generator | None, strengths: Sequence[int] = range(1, STRENGTHS + 1)
) -> Iterator[Tensor]:
    """Images as one kind of damage leaves them, at one strength after another.

    Args:
        kind: one of `DAMAGES`.
        images: floats in [0, 1], of shape (B, 3, H, W).
        generator: source of every random draw.
        strengths: from 1 to 5.
    """
    damage = DAMAGES[kind]
    drawn, values = damage.draw(images, generator), damage.at(images.shape[-1])
    parts = list(zip(torch.split(images, AT_ONCE), torch.split(drawn, AT_ONCE), strict=True))
    for strength in strengths:
        value = values[strength - 1]
        yield torch.cat([damage.apply(part, value, own).clamp(0, 1) for part, own in parts])


def blur(images: Tensor, sigma: float, _: Tensor) -> Tensor:
    """A Gaussian of so many pixels; beyond the edge the image goes on as it ends."""
    rows, columns = (_gaussian(side, sigma, images) for side in images.shape[-2:])
    return rows @ images @ columns.T


def noise(images: Tensor, sigma: float, drawn: Tensor) -> Tensor:
    """Normal noise of this deviation, in every pixel and channel."""
    return images + sigma * drawn


def brightness(images: Tensor, change: float, _: Tensor) -> Tensor:
    """The value of HSV raised, hue and saturation kept."""
    value = images.amax(1, keepdim=True)
    raised = (value + change).clamp(0, 1)
    return torch.where(value > 0, images * raised / value.clamp_min(1e-8), raised)


def contrast(images: Tensor, factor: float, _: Tensor) -> Tensor:
    """Every pixel moved towards the mean of its image and channel."""
    mean = images.mean((-2, -1), keepdim=True)
    return mean + factor * (images - mean)


def saturation(images: Tensor, change: tuple[float, float], _: Tensor) -> Tensor:
    """The saturation of HSV times one number plus another, hue and value kept; grey stays grey."""
    factor, shift = change
    value, least = images.amax(1, keepdim=True), images.amin(1, keepdim=True)
    before = (value - least) / value.clamp_min(1e-8)
    after = (factor * before + shift).clamp(0, 1)
    return torch.where(before > 0, value - (value - images) * after / before.clamp_min(1e-8), images)


def crop(images: Tensor, side: float, drawn: Tensor) -> Tensor:
    """A part of this side, cut out anywhere and enlarged."""
    shift = (1 - side) * (2 * drawn[:, :2] - 1)
    return _looked_at(images, side * _turned(images, 0 * drawn[:, 0]), shift)


def padding(images: Tensor, side: float, drawn: Tensor) -> Tensor:
    """The image reduced to this side, in the middle of a black or a white border."""
    border = (drawn[:, 0] < 0.5).to(images.dtype).view(-1, 1, 1, 1)
    return _looked_at(images - border, _turned(images, 0 * drawn[:, 0]) / side) + border


def rotation(images: Tensor, degrees: float, drawn: Tensor) -> Tensor:
    """Turned to the left or to the right; the corners are black."""
    return _looked_at(images, _turned(images, math.radians(degrees) * (drawn[:, 0] < 0.5).float().mul(2).sub(1)))


def flip(images: Tensor, which: int, _: Tensor) -> Tensor:
    """One of `FLIPS`."""
    ways: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda x: x.flip(-1),
        lambda x: x.rot90(1, (-2, -1)),
        lambda x: x.rot90(-1, (-2, -1)),
        lambda x: x.flip(-1, -2),
        lambda x: x.flip(-2),
    )
    return ways[which](images)


def downscaling(images: Tensor, side: float, _: Tensor) -> Tensor:
    """Reduced to this side by averaging, and enlarged again."""
    rows, columns = (_averages(length, max(1, int(side * length)), images) for length in images.shape[-2:])
    reduced = rows @ images @ columns.T
    return F.interpolate(reduced, size=images.shape[-2:], mode="bilinear", align_corners=False)


def _gaussian(length: int, sigma: float, like: Tensor) -> Tensor:
    """A matrix that blurs a line of pixels, cut off at four deviations."""
    reach = int(4 * sigma + 0.5)
    offsets = torch.arange(-reach, reach + 1)
    weights = torch.exp(-0.5 * (offsets / sigma) ** 2)
    matrix = torch.zeros(length, length)
    places = (torch.arange(length)[:, None] + offsets).clamp(0, length - 1)
    matrix.scatter_add_(1, places, (weights / weights.sum()).expand(length, -1))
    return matrix.to(like)


def _averages(length: int, fewer: int, like: Tensor) -> Tensor:
    """A matrix that reduces a line of pixels: each new one is the mean of what it covers, parts of pixels included."""
    ends = torch.arange(fewer + 1)[:, None] * (length / fewer)
    covered = (ends.clamp_min(torch.arange(length)).minimum(torch.arange(1, length + 1))).diff(dim=0)
    return (covered * (fewer / length)).to(like)


def _turned(images: Tensor, angle: Tensor) -> Tensor:
    """The matrix that turns each image by its angle."""
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([torch.stack([cos, -sin], 1), torch.stack([sin, cos], 1)], 1).to(images)


def _looked_at(images: Tensor, matrix: Tensor, shift: Tensor | None = None) -> Tensor:
    """Each image seen through a matrix; zero outside."""
    moved = torch.zeros_like(matrix[:, 0]) if shift is None else shift.to(images)
    grid = F.affine_grid(torch.cat([matrix, moved[:, :, None]], 2), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


SIDES = (0.9, 0.8, 0.7, 0.6, 0.5)
DAMAGES: dict[str, Damage] = {
    "jpeg": Damage(lambda images, quality, _: jpeg(images, quality), (25, 18, 15, 10, 7), (80, 65, 58, 50, 40)),
    "blur": Damage(blur, (1, 2, 3, 4, 6), (0.4, 0.6, 0.7, 0.8, 1)),
    "noise": Damage(noise, (0.08, 0.12, 0.18, 0.26, 0.38), (0.04, 0.06, 0.08, 0.09, 0.1), field),
    "brightness": Damage(brightness, (0.1, 0.2, 0.3, 0.4, 0.5)),
    "contrast": Damage(contrast, (0.4, 0.3, 0.2, 0.1, 0.05)),
    "saturation": Damage(saturation, ((0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2))),
    "crop": Damage(crop, SIDES),
    "padding": Damage(padding, SIDES),
    "rotation": Damage(rotation, (5, 10, 15, 20, 30)),
    "flip": Damage(flip, tuple(range(STRENGTHS))),
    "downscaling": Damage(downscaling, (0.6, 0.5, 0.4, 0.3, 0.25), (0.95, 0.9, 0.85, 0.75, 0.65)),
    "overlay": Damage(overlay, (0.08, 0.1, 0.12, 0.15, 0.2)),
}
"""Every kind by its name."""
