"""From an image file to RGB pixels, whatever the file holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from holdfast.errors import DataError, reason
from holdfast.view import Interpolation, View

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})

FILTERS: dict[Interpolation, Image.Resampling] = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "nearest": Image.Resampling.NEAREST,
}

LONGEST = 2**15
"""Pixels along the longer side of a resized image; an image of 1 × 20,000 pixels would fill the memory."""


class BadImage(DataError):
    """An image that is missing or cannot be decoded.

    Args:
        where: the file, for the message.
        reason: what is wrong with it.
        missing: whether there is no such file at all.
    """

    def __init__(self, where: str, reason: str, missing: bool = False) -> None:
        super().__init__(
            f"cannot read image '{where}': {reason}; replace the file, or leave such images out with --skip-bad"
        )
        self.where, self.reason, self.missing = where, reason, missing

    def __reduce__(self) -> tuple[type[BadImage], tuple[str, str, bool]]:
        return BadImage, (self.where, self.reason, self.missing)


def decode(opener: Callable[[], BinaryIO], where: str, view: View | None = None) -> NDArray[np.uint8]:
    """RGB pixels of shape (height, width, 3), upright, the first frame of an animation.

    Args:
        opener: opens the file.
        where: what to call the file in an error.
        view: resize for this view; the image's own size when left out.
    """
    try:
        with opener() as file, Image.open(file) as image:
            image.load()
            ImageOps.exif_transpose(image, in_place=True)  # no copy of an image that is upright
            rgb = to_rgb(image)
    except MemoryError:
        raise
    except FileNotFoundError:
        raise BadImage(where, "there is no such file", missing=True) from None
    except (
        Exception
    ) as error:  # Pillow's plugins fail in many ways: OSError, SyntaxError, ValueError, struct.error, ...
        raise BadImage(where, reason(error)) from error
    if view is not None and max(view.resized(rgb.height, rgb.width)) > LONGEST:
        raise BadImage(where, f"at {rgb.width} × {rgb.height} it is a line rather than an image")
    return resized(rgb, view)


def resized(image: Image.Image, view: View | None) -> NDArray[np.uint8]:
    """Pixels at a view's canvas, before anything is cropped; antialiased, untouched where they have that size."""
    if view is not None:
        height, width = view.resized(image.height, image.width)
        if image.size != (width, height):
            image = image.resize((width, height), FILTERS[view.interpolation])
        if view.fit == "pad" and height != width:
            padded = Image.new("RGB", (view.canvas, view.canvas))
            padded.paste(image, ((view.canvas - width) // 2, (view.canvas - height) // 2))
            image = padded
    return np.array(image, np.uint8)


def to_rgb(image: Image.Image) -> Image.Image:
    """Eight-bit RGB: 16-bit grey is scaled, transparency lies over white."""
    if image.mode == "F":
        raise ValueError("pixels are floating-point numbers; save it with 8 or 16 bits")
    if image.mode.startswith("I"):  # Pillow's own conversion would clip everything above 255 to white
        sixteen = np.asarray(image).astype(np.int64).clip(0, 65535)
        image = Image.fromarray(((sixteen + 128) // 257).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image if image.mode == "RGB" else image.convert("RGB")
