"""Image files: whole ones are shown as they must be, broken and hostile ones are refused in one line."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import numpy as np
from fuzzing import Target, Wrong
from mutations import damaged_bytes
from sample_images import samples

from holdfast.data.sources import FileSource
from holdfast.view import View

HUGE = (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 65_535, 30_000, 2_000)


def _image(draw: random.Random, folder: Path) -> None:
    kind, (data, shape) = draw.choice(list(samples().items()))
    whole = draw.random() < 0.1
    if not whole:
        data = draw.choice((_claimed, damaged_bytes, damaged_bytes, _cut, _chained))(data, draw)
    file = folder / draw.choice(("a.jpg", "a.png", "a.tif", "a.bmp", "a.GIF", "a.webp"))
    file.write_bytes(data)
    view = draw.choice((None, View(8), View(8, fit="squash"), View(8, fit="pad")))
    pixels = FileSource([file]).image(0, view)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise Wrong(f"{kind}: {pixels.dtype} {pixels.shape}")
    if view is not None and min(pixels.shape[:2]) != 8:
        raise Wrong(f"{kind}: {pixels.shape} where {view} was asked for")
    if whole and view is None and pixels.shape[:2] != shape:
        raise Wrong(f"{kind}: {pixels.shape[:2]} instead of {shape}")


def _whole(draw: random.Random, folder: Path) -> None:
    """Every kind as it is; a refusal is a defect here."""
    for kind, (data, shape) in samples().items():
        file = folder / "a.png"
        file.write_bytes(data)
        if FileSource([file]).image(0).shape != (*shape, 3):
            raise Wrong(f"{kind} is not shown as {shape}")


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def _chained(data: bytes, draw: random.Random) -> bytes:
    """The start of one kind and the end of another."""
    other, _ = draw.choice(list(samples().values()))
    return data[: draw.randrange(len(data))] + other[draw.randrange(len(other)) :]


def _claimed(data: bytes, draw: random.Random) -> bytes:
    """Another width and height in the header, checksums mended."""
    width, height = draw.choice(HUGE), draw.choice(HUGE)
    if data.startswith(b"\x89PNG"):
        head = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
        return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]
    if data.startswith(b"BM"):
        return data[:18] + struct.pack("<II", width, height) + data[26:]
    if data.startswith(b"GIF"):
        return data[:6] + struct.pack("<HH", width & 0xFFFF, height & 0xFFFF) + data[10:]
    at = data.find(b"\xff\xc0")
    if at >= 0:
        return data[: at + 5] + struct.pack(">HH", height & 0xFFFF, width & 0xFFFF) + data[at + 9 :]
    return damaged_bytes(data, draw)


TARGETS = (Target("image", _image, 35), Target("image-whole", _whole, 1))
