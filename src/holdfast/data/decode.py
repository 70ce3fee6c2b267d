"""From an image file to RGB pixels, whatever the file holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from holdfast.errors import DataError, reason

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})


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


def decode(opener: Callable[[], BinaryIO], where: str, size: int | None = None) -> NDArray[np.uint8]:
    """RGB pixels of shape (height, width, 3), upright, the first frame of an animation.

    Args:
        opener: opens the file.
        where: what to call the file in an error.
        size: squash to exactly size × size.
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
    return squash(rgb, size)


def squash(image: Image.Image, size: int | None) -> NDArray[np.uint8]:
    """Pixels at size × size, aspect ratio not kept; antialiased when shrinking, untouched when already that size."""
    if size is not None and image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR)
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
