"""From arrays and image files, whatever they hold, to the RGB pixels of a table."""

from __future__ import annotations

import hashlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from holdfast.data import jpeg
from holdfast.data.formats import in_our_words, listening, why_unreadable
from holdfast.data.resampling import Pixels, Window, part, sides
from holdfast.errors import DataError
from holdfast.view import View

Choose: TypeAlias = Callable[[int, int], Window]
"""The window that is wanted of an image of some height and width at its canvas."""

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
    opener: Callable[[], BinaryIO],
    where: str,
    view: View | None = None,
    tell: Callable[[str], object] | None = None,
    choose: Choose | None = None,
) -> Pixels:
    """RGB pixels of shape (height, width, 3), upright, the first frame of an animation.

    Args:
        opener: opens the file.
        where: what to call the file in an error.
        view: resize for this view; the image's own size when left out.
        tell: is told what is odd about an image that can be read.
        choose: which window of the resized image is wanted; all of it when left out.
    """
    rgb: Image.Image | Pixels | None
    warned: list[str] = []
    try:
        with opener() as file:
            rgb = jpeg.read(file)
            if rgb is None:
                file.seek(0)
                rgb, warned = _read(file)
    except MemoryError:
        raise
    except FileNotFoundError:
        raise BadImage(where, "there is no such file", missing=True) from None
    except Exception as error:  # Pillow's plugins fail in many ways: OSError, SyntaxError, struct.error, ...
        raise BadImage(where, why_unreadable(error)) from error
    if warned and tell is not None:
        tell(in_our_words(warned[0]))
    height, width = sides(rgb)
    if view is not None and max(view.resized(height, width)) > LONGEST:
        raise BadImage(where, f"at {width} × {height} it is a line rather than an image")
    return resized(rgb, view, choose)


def _read(file: BinaryIO) -> tuple[Image.Image, list[str]]:
    """An image by Pillow, and what that warns of."""
    with listening() as warned, Image.open(file) as image:
        image.load()
        ImageOps.exif_transpose(image, in_place=True)  # no copy of an image that is upright
        return to_rgb(image), warned


def size_of(opener: Callable[[], BinaryIO], where: str, formats: tuple[str, ...] | None = None) -> tuple[int, int]:
    """Width and height of an image, which is not decoded.

    Args:
        opener: opens the file.
        where: what to call the file in an error.
        formats: of Pillow, that it may have; any when left out.
    """
    try:
        with listening(), opener() as file, Image.open(file, formats=formats) as image:
            return image.size
    except Exception as error:  # as in `decode`
        raise BadImage(where, why_unreadable(error)) from error


def resized(image: Image.Image | Pixels, view: View | None, choose: Choose | None = None) -> Pixels:
    """Pixels at a view's canvas, or a window of them; antialiased, untouched where they have that size."""
    if view is None:
        return np.array(image, np.uint8)
    height, width = view.resized(*sides(image))
    bars = view.fit == "pad" and height != width
    window = (0, 0, height, width) if choose is None or bars else choose(height, width)
    pixels = part(image, (height, width), window, view.interpolation)
    if not bars:
        return pixels
    padded = np.zeros((view.canvas, view.canvas, 3), np.uint8)
    top, left = (view.canvas - height) // 2, (view.canvas - width) // 2
    padded[top : top + height, left : left + width] = pixels
    return padded if choose is None else cropped(padded, choose)


def cropped(pixels: Pixels, choose: Choose) -> Pixels:
    """The window that is wanted of an image that is at its canvas."""
    top, left, height, width = choose(*pixels.shape[:2])
    return pixels[top : top + height, left : left + width]


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

    def window(self, index: int, view: View, choose: Choose) -> Pixels:
        """The window that is wanted of an image resized for a view."""
        return cropped(self.image(index, view), choose)

    def content(self, index: int) -> bytes:
        """What makes it this image and no other: the bytes of its file, or its pixels where it has none."""
        pixels = self.image(index)
        return f"{pixels.shape}".encode() + pixels.tobytes()

    def stamp(self, index: int) -> bytes:
        """What changes when the image does, without reading a file: its size and time where it has one."""
        return hashlib.blake2b(self.content(index), digest_size=16).digest()

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


class OpenedSource(ImageSource):
    """Image files, wherever they are opened from."""

    @abstractmethod
    def open(self, index: int) -> BinaryIO:
        """One file."""

    def image(self, index: int, view: View | None = None) -> Pixels:
        """RGB pixels of one file."""
        return self._decoded(index, view)

    def window(self, index: int, view: View, choose: Choose) -> Pixels:
        """A window of one file; no more than that is resized."""
        return self._decoded(index, view, choose)

    def size(self, index: int) -> tuple[int, int]:
        """Width and height as the file's first bytes tell them."""
        return size_of(lambda: self.open(index), self.where(index))

    def content(self, index: int) -> bytes:
        """The bytes of one file."""
        with self.open(index) as file:
            return file.read()

    def _decoded(self, index: int, view: View | None, choose: Choose | None = None) -> Pixels:
        tell = partial(self.odd.__setitem__, index)
        return decode(lambda: self.open(index), self.where(index), view, tell, choose)


class FileSource(OpenedSource):
    """Image files on disk."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__()
        self.paths = list(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def where(self, index: int) -> str:
        """Its path."""
        return str(self.paths[index])

    def open(self, index: int) -> BinaryIO:
        """The file."""
        return open_plain(self.paths[index])

    def stamp(self, index: int) -> bytes:
        """Size and time of the file."""
        return file_stamp(self.paths[index])


def file_stamp(path: Path) -> bytes:
    """Size and time of a file; nothing where there is none."""
    try:
        status = path.stat()
    except OSError:
        return b""
    return f"{status.st_size} {status.st_mtime_ns}".encode()


def open_plain(path: str | Path) -> BinaryIO:
    """The file; a pipe or device of an image's name would be waited for without end."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise ValueError("it is no plain file")
    return os.fdopen(number, "rb")
