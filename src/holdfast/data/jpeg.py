"""Ordinary JPEG files: only their decoder runs, and other Python threads beside it.

The decoder is torchvision's or, where that was built without, Pillow's; both are libjpeg-turbo, so pixels are the same.
Pillow as a whole, with its errors and warnings, reads what is not plain here or not whole.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from holdfast.data.resampling import Pixels

HEAD = 2**18
"""Bytes that are read first; most photographs of a dataset are no longer than that."""
LARGEST = 2**24
"""Bytes of a file, at most; Pillow reads a longer one as far as it needs to."""
BEGIN = b"\xff\xd8\xff"
RGB = 3
"""What torchvision calls this mode."""
FRAMES = (0xC0, 0xC1, 0xC2)
"""Marks of a baseline, an extended and a progressive frame."""
TABLES = (0xC4, 0xDB, 0xDD, 0xFE)
"""Marks of what else stands before an image: Huffman tables, quantisation, restarts, comments."""
SCAN, EXIF, MULTIPLE, ADOBE = 0xDA, 0xE1, 0xE2, 0xEE
SEGMENT = struct.Struct(">BBH").unpack_from
ORIENTATION, SHORT = 0x0112, 3
BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}
"""Room that a number takes, by its type in EXIF."""


class Header(NamedTuple):
    """What stands before the pixels.

    Args:
        height: as stored.
        width: as stored.
        mode: as Pillow calls it, L or RGB.
        orientation: 1 to 8, as EXIF counts them.
    """

    height: int
    width: int
    mode: str
    orientation: int


@cache
def decoder() -> Callable[[Tensor, int, bool], Tensor] | None:
    """torchvision's; None where it was built without. The package itself, which takes seconds to import, is not."""
    spec = importlib.util.find_spec("torchvision")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            library = Path(folder) / f"image{suffix}"
            if library.exists():
                try:
                    torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
                    found: Callable[[Tensor, int, bool], Tensor] = torch.ops.image.decode_jpeg.default
                except (OSError, RuntimeError, AttributeError):
                    continue
                return found
    return None


def read(file: BinaryIO) -> Image.Image | Pixels | None:
    """RGB pixels, upright; None where Pillow as a whole should read the file."""
    data = file.read(HEAD)
    if len(data) == HEAD and data.startswith(BEGIN):
        data += file.read(LARGEST)
    header = read_header(data)
    if header is None:
        return None
    decode, (height, width, mode, orientation) = decoder(), header
    try:
        if decode is not None:
            pixels = decode(torch.frombuffer(bytearray(data), dtype=torch.uint8), RGB, False)
            return upright(pixels.numpy().transpose(1, 2, 0), orientation)
        image = Image.frombytes(mode, (width, height), data, "jpeg", mode, "")
    except (RuntimeError, ValueError, OSError):
        return None
    image = image if mode == "RGB" else image.convert("RGB")
    return image if orientation == 1 else upright(np.asarray(image), orientation)


def upright(pixels: Pixels, orientation: int) -> Pixels:
    """Pixels as they should be seen."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)


def read_header(data: bytes) -> Header | None:
    """Of a JPEG file with eight bits, grey or in colour, of a size that Pillow does not warn of; None of any other."""
    if not data.startswith(BEGIN):
        return None
    try:
        return _read_header(data)
    except struct.error:  # cut off
        return None


def _read_header(data: bytes) -> Header | None:
    at, size, orientation, elsewhere = 2, None, None, False
    while True:
        begin, kind, length = SEGMENT(data, at)
        at, end = at + 4, at + 2 + length
        if begin != 0xFF or length < 2 or end > len(data):
            return None
        if kind == SCAN:
            break
        if kind in FRAMES:
            bits, height, width, layers = struct.unpack_from(">BHHB", data, at)
            if size or bits != 8 or layers not in (1, 3) or not 0 < height * width <= (Image.MAX_IMAGE_PIXELS or 2**32):
                return None
            size = height, width, "L" if layers == 1 else "RGB"
        elif kind == EXIF and data.startswith(b"Exif\0\0", at):
            if orientation is not None:  # goes on
                return None
            orientation = _orientation(data[at + 6 : end])
            if orientation is None:
                return None
        elif kind == EXIF:  # XMP, which may say it instead
            elsewhere = elsewhere or data.find(b"Orientation", at, end) >= 0
        elif not (kind in TABLES or 0xE0 <= kind <= 0xEF) or _odd(kind, data[at:end]):
            return None
        at = end
    return None if size is None or (elsewhere and not orientation) else Header(*size, orientation or 1)


def _odd(kind: int, segment: bytes) -> bool:
    """Whether it says that the file holds several images, or colours that are no luminance and chrominance."""
    several = kind == MULTIPLE and segment.startswith(b"MPF\0")
    return several or (kind == ADOBE and segment.startswith(b"Adobe") and segment[-1] != 1)


def _orientation(exif: bytes) -> int | None:
    """As the metadata of a photograph say; 0 where they do not, None where Pillow would warn of them."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None:
        return None
    (first,) = struct.unpack_from(f"{order}L", exif, 4)
    (count,) = struct.unpack_from(f"{order}H", exif, first)
    orientation = 0
    for entry in range(first + 2, first + 2 + 12 * count, 12):
        tag, kind, number, place = struct.unpack_from(f"{order}HHLL", exif, entry)
        room = number * BYTES.get(kind, 0)
        if room > 4 and place + room > len(exif):
            return None
        if tag == ORIENTATION:
            (orientation,) = struct.unpack_from(f"{order}H", exif, entry + 8)
            if kind != SHORT or number != 1 or not 1 <= orientation <= 8:
                return None
    return orientation
