"""From arrays and image files, whatever they hold, to the RGB pixels of a table."""

from __future__ import annotations

import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from holdfast.data.formats import in_our_words, listening, why_unreadable
from holdfast.errors import DataError
from holdfast.view import View

Pixels: TypeAlias = NDArray[np.uint8]

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
        super().__init__(f"cannot read image '{where}': {reason}; replace it, or leave such images out with --skip-bad")
        self.where, self.reason, self.missing = where, reason, missing

    def __reduce__(self) -> tuple[type[BadImage], tuple[str, str, bool]]:
        return BadImage, (self.where, self.reason, self.missing)


def decode(
    opener: Callable[[], BinaryIO], where: str, view: View | None = None, tell: Callable[[str], object] | None = None
) -> Pixels:
    """RGB pixels of shape (height, width, 3), upright, the first frame of an animation.

    Args:
        opener: opens the file.
        where: what to call the file in an error.
        view: resize for this view; the image's own size when left out.
        tell: is told what is odd about an image that can be read.
    """
    try:
        with listening() as warned, opener() as file, Image.open(file) as image:
            image.load()
            ImageOps.exif_transpose(image, in_place=True)  # no copy of an image that is upright
            rgb = to_rgb(image)
    except MemoryError:
        raise
    except FileNotFoundError:
        raise BadImage(where, "there is no such file", missing=True) from None
    except Exception as error:  # Pillow's plugins fail in many ways: OSError, SyntaxError, struct.error, ...
        raise BadImage(where, why_unreadable(error)) from error
    if warned and tell is not None:
        tell(in_our_words(warned[0]))
    if view is not None and max(view.resized(rgb.height, rgb.width)) > LONGEST:
        raise BadImage(where, f"at {rgb.width} × {rgb.height} it is a line rather than an image")
    return resized(rgb, view)


def size_of(opener: Callable[[], BinaryIO], where: str) -> tuple[int, int]:
    """Width and height of an image, which is not decoded."""
    try:
        with listening(), opener() as file, Image.open(file) as image:
            return image.size
    except Exception as error:  # as in `decode`
        raise BadImage(where, why_unreadable(error)) from error


def resized(image: Image.Image, view: View | None) -> Pixels:
    """Pixels at a view's canvas, before anything is cropped; antialiased, untouched where they have that size."""
    if view is not None:
        height, width = view.resized(image.height, image.width)
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling[view.interpolation.upper()])
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


class ImageSource(ABC):
    """A sequence of images that are decoded when asked for; safe to use from several threads."""

    def __init__(self) -> None:
        self.odd: dict[int, str] = {}
        """What was found to be odd about images that were read."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def where(self, index: int) -> str:
        """What to call an image in a message."""

    @abstractmethod
    def image(self, index: int, view: View | None = None) -> Pixels:
        """RGB pixels of shape (height, width, 3), resized for a view when given; `BadImage` if unreadable."""

    def content(self, index: int) -> bytes:
        """What makes it this image and no other: the bytes of its file, or its pixels where it has none."""
        pixels = self.image(index)
        return f"{pixels.shape}".encode() + pixels.tobytes()

    def size(self, index: int) -> tuple[int, int]:
        """Width and height of an image; `BadImage` if unreadable."""
        height, width = self.image(index).shape[:2]
        return width, height

    def images(self, indices: Sequence[int] | NDArray[np.int64], view: View) -> list[Pixels]:
        """Several images, each of its own shape."""
        return [self.image(int(i), view) for i in indices]


class ArraySource(ImageSource):
    """Images held in one array.

    Args:
        array: uint8, n × height × width (grey) or n × height × width × 3.
    """

    def __init__(self, array: Pixels) -> None:
        if array.dtype != np.uint8 or not (array.ndim == 3 or (array.ndim == 4 and array.shape[3] == 3)):
            raise ValueError(f"images must be uint8, n×H×W or n×H×W×3; got {array.dtype} {array.shape}")
        super().__init__()
        self.array = array
        self._grey = array.ndim == 3

    def __len__(self) -> int:
        return len(self.array)

    def where(self, index: int) -> str:
        """Its number."""
        return f"image {index}"

    def image(self, index: int, view: View | None = None) -> Pixels:
        """RGB pixels of one image."""
        return resized(Image.fromarray(self._rgb(self.array[index])), view)

    def images(self, indices: Sequence[int] | NDArray[np.int64], view: View) -> list[Pixels]:
        """Several images in one look-up where no resizing is needed."""
        if self.array.shape[1:3] != (view.canvas, view.canvas):
            return super().images(indices, view)
        return list(self._rgb(self.array[np.asarray(indices, np.int64)]))

    def _rgb(self, array: Pixels) -> Pixels:
        return np.repeat(array[..., None], 3, axis=-1) if self._grey else array


class FileSource(ImageSource):
    """Image files on disk."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__()
        self.paths = list(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def where(self, index: int) -> str:
        """Its path."""
        return str(self.paths[index])

    def image(self, index: int, view: View | None = None) -> Pixels:
        """RGB pixels of one file."""
        tell = partial(self.odd.__setitem__, index)
        return decode(lambda: open_plain(self.paths[index]), self.where(index), view, tell)

    def size(self, index: int) -> tuple[int, int]:
        """Width and height as the file's first bytes tell them."""
        return size_of(lambda: open_plain(self.paths[index]), self.where(index))

    def content(self, index: int) -> bytes:
        """The bytes of one file."""
        return self.paths[index].read_bytes()


def open_plain(path: Path) -> BinaryIO:
    """The file; a pipe or device of an image's name would be waited for without end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is no plain file")
    return path.open("rb")
