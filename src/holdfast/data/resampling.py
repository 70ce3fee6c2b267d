"""Antialiased resizing of a window of an image: in C where that was compiled at installation, else by Pillow and torch.

Pixels are the same either way: bytes to the last bit, floats to rounding.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from holdfast.errors import DataError
from holdfast.view import Interpolation

Pixels: TypeAlias = NDArray[np.uint8]

Window: TypeAlias = tuple[int, int, int, int]
"""Top, left, height and width."""

FRACTION = 22
"""Bits of a weight's fraction, as in Pillow and in the C file."""

compiled: Any = (
    importlib.import_module("holdfast.data._resample") if importlib.util.find_spec("holdfast.data._resample") else None
)
"""The C file; None where there was no compiler."""

REACH = {"bilinear": 1.0, "bicubic": 2.0, "lanczos": 3.0}
"""Pixels to either side of its centre that a filter counts."""


class Sampling(NamedTuple):
    """Which pixels of a line make each pixel of a resized one.

    Args:
        first: the first of them.
        weights: of that one and of those after it; the same number for all, zero where fewer count.
    """

    first: NDArray[np.int32]
    weights: NDArray[Any]


@lru_cache(maxsize=2048)
def sampling(full: int, size: int, interpolation: Interpolation = "bilinear") -> Sampling:
    """The weights by which Pillow and torch resize a line of `full` pixels to `size`, in double precision."""
    scale = full / size
    stretch = max(scale, 1.0)
    reach = REACH[interpolation] * stretch
    centres = (np.arange(size) + 0.5) * scale
    first = np.maximum((centres - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centres + reach + 0.5).astype(np.int64), full)
    taps = int((last - first).max())
    begin = np.minimum(first, full - taps)  # no weight, not even a zero, beyond the line
    pixels = begin[:, None] + np.arange(taps)
    weights = _filtered((pixels - centres[:, None] + 0.5) * (1 / stretch), interpolation)  # rounds as Pillow does
    weights = np.where((pixels >= first[:, None]) & (pixels < last[:, None]), weights, 0.0)
    return Sampling(begin.astype(np.int32), weights / weights.sum(1, keepdims=True))


def _filtered(x: NDArray[np.float64], interpolation: Interpolation) -> NDArray[np.float64]:
    """Pillow's filters; bicubic is Keys' with a = -1/2."""
    x = np.abs(x)
    if interpolation == "bilinear":
        return np.clip(1 - x, 0, None)
    if interpolation == "bicubic":
        near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
        return np.where(x < 1, near, np.where(x < 2, far, 0.0))
    return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0.0)


@lru_cache(maxsize=2048)
def _whole(full: int, size: int, interpolation: Interpolation) -> Sampling:
    """Weights as whole numbers, as Pillow rounds them."""
    first, weights = sampling(full, size, interpolation)
    scaled = weights * (1 << FRACTION)
    return Sampling(first, np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int32))


@lru_cache(maxsize=2048)
def _real(full: int, size: int, mirrored: bool, scale: float = 1.0) -> Sampling:
    """Bilinear weights as floats, of a line that is read backwards if need be."""
    first, weights = sampling(full, size)
    way = slice(None, None, -1 if mirrored else 1)
    return Sampling(np.ascontiguousarray(first[way]), np.ascontiguousarray((weights[way] * scale).astype(np.float32)))


def sides(image: Image.Image | Pixels) -> tuple[int, int]:
    """Height and width."""
    if isinstance(image, Image.Image):
        return image.height, image.width
    height, width = image.shape[:2]
    return height, width


def _across_first(full: tuple[int, int], canvas: tuple[int, int]) -> bool:
    """Whether every version of Pillow resizes across first, as the C file does; newer ones begin with a long side."""
    return full[0] <= 1.6 * full[1] and canvas[1] * full[0] <= 1.01 * full[1] * canvas[0]


def part(image: Image.Image | Pixels, canvas: tuple[int, int], window: Window, interpolation: Interpolation) -> Pixels:
    """A window of an RGB or grey image as it would be if the whole were resized, without resizing the whole.

    Args:
        image: an array is RGB, and lies in one piece.
        canvas: height and width to which the whole would be resized.
        window: of the resized image.
        interpolation: of the resizing.
    """
    top, left, height, width = window
    if min(top, left) < 0 or min(height, width) < 1 or top + height > canvas[0] or left + width > canvas[1]:
        raise DataError(f"a crop of {height} × {width} px does not fit into an image of {canvas[0]} × {canvas[1]} px")
    full = sides(image)
    if full == canvas:
        if isinstance(image, Image.Image):
            return np.array(image.crop((left, top, left + width, top + height)))
        return np.ascontiguousarray(image[top : top + height, left : left + width])
    grey = isinstance(image, Image.Image) and image.mode == "L"
    if compiled is None or grey or interpolation == "nearest" or not _across_first(full, canvas):
        whole = image if isinstance(image, Image.Image) else Image.fromarray(image)
        return np.array(whole.resize(canvas[::-1], Image.Resampling[interpolation.upper()]))[
            top : top + height, left : left + width
        ]
    down, across = _whole(full[0], canvas[0], interpolation), _whole(full[1], canvas[1], interpolation)
    tops, lefts = down.first[top : top + height], across.first[left : left + width]
    down_taps, across_taps = down.weights.shape[1], across.weights.shape[1]
    above, before = int(tops[0]), int(lefts[0])
    below, after = int(tops[-1]) + down_taps, int(lefts[-1]) + across_taps
    if isinstance(image, Image.Image):
        pixels, offset, stride = np.asarray(image.crop((before, above, after, below))), 0, 3 * (after - before)
    else:
        pixels, stride = image, 3 * full[1]
        offset = above * stride + 3 * before
    out = np.empty((height, width, 3), np.uint8)
    compiled.shrink(
        *(pixels, offset, stride, below - above, after - before),
        *(lefts - np.int32(before), across.weights[left : left + width], across_taps, width),
        *(tops - np.int32(above), down.weights[top : top + height], down_taps, height),
        out,
    )
    return out


def places(windows: Tensor) -> list[Window]:
    """Windows as whole numbers."""
    return [(top, left, height, width) for top, left, height, width in windows.nan_to_num().long().tolist()]


def view_windows(pixels: Sequence[Pixels], windows: list[Window], mirrored: list[bool], out: Tensor) -> None:
    """The window of each image at the size of the result, bilinear, antialiased, in [0, 1], on a CPU.

    Args:
        pixels: bytes, (height, width, 3) each.
        windows: of each.
        mirrored: whether to mirror each left to right.
        out: float32, (n, 3, size, size), channels last in memory; is filled.
    """
    size = out.shape[2]
    views = out.permute(0, 2, 3, 1).numpy()
    for row, (image, (top, left, height, width), mirror) in enumerate(zip(pixels, windows, mirrored, strict=True)):
        if compiled is None:
            window = torch.from_numpy(image)[top : top + height, left : left + width].permute(2, 0, 1)[None].float()
            seen = F.interpolate(window, (size, size), mode="bilinear", antialias=True)[0].permute(1, 2, 0).div_(255)
            views[row] = (seen.flip(1) if mirror else seen).clamp_(0, 1).numpy()
            continue
        down, across = _real(height, size, False), _real(width, size, mirror, 1 / 255)
        stride = 3 * image.shape[1]
        compiled.view(
            *(np.ascontiguousarray(image), top * stride + 3 * left, stride, height, width),
            *(across.first, across.weights, across.weights.shape[1], size),
            *(down.first, down.weights, down.weights.shape[1], size),
            views[row],
        )
