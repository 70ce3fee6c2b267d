"""Small images of every kind that cameras, scanners and web sites make."""

from __future__ import annotations

import functools
import io
import random

import numpy as np
from PIL import Image

SIDES = (12, 9)
"""Width and height, different so that a turned image shows."""


def photo(draw: random.Random) -> bytes:
    """An ordinary small picture."""
    return draw.choice(ordinary())


@functools.cache
def ordinary() -> tuple[bytes, ...]:
    """A JPEG and a PNG."""
    return _saved(_picture("RGB"), "JPEG"), _saved(_picture("RGB"), "PNG")


@functools.cache
def samples() -> dict[str, tuple[bytes, tuple[int, int]]]:
    """Kind → file and the (height, width) it must be shown with."""
    width, height = SIDES
    upright, turned = (height, width), (width, height)
    found: dict[str, tuple[bytes, tuple[int, int]]] = {}
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        found[f"png {mode}"] = _saved(_picture(mode), "PNG"), upright
    for mode in ("L", "RGB", "CMYK"):
        found[f"jpeg {mode}"] = _saved(_picture(mode), "JPEG"), upright
    found["jpeg progressive"] = _saved(_picture("RGB"), "JPEG", progressive=True), upright
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        shown = turned if orientation >= 5 else upright
        found[f"jpeg turned {orientation}"] = _saved(_picture("RGB"), "JPEG", exif=exif.tobytes()), shown
    found["png turned"] = _saved(_picture("RGB"), "PNG", exif=exif.tobytes()), turned
    for mode in ("1", "L", "RGB", "RGBA", "CMYK", "I;16", "LAB"):
        found[f"tiff {mode}"] = _saved(_picture(mode), "TIFF"), upright
    for mode in ("1", "L", "P", "RGB"):
        found[f"bmp {mode}"] = _saved(_picture(mode), "BMP"), upright
    frames = [_picture("RGB", shift) for shift in (40, 80)]
    found["gif"] = _saved(_picture("P"), "GIF"), upright
    found["gif animated"] = _saved(_picture("P"), "GIF", save_all=True, append_images=frames), upright
    found["png animated"] = _saved(_picture("RGB"), "PNG", save_all=True, append_images=frames), upright
    found["tiff pages"] = _saved(_picture("RGB"), "TIFF", save_all=True, append_images=frames), upright
    found["webp"] = _saved(_picture("RGB"), "WEBP"), upright
    found["webp alpha"] = _saved(_picture("RGBA"), "WEBP", lossless=True), upright
    found["webp animated"] = _saved(_picture("RGB"), "WEBP", save_all=True, append_images=frames), upright
    return found


def _picture(mode: str, shift: int = 0) -> Image.Image:
    width, height = SIDES
    ramp = (np.arange(width * height * 3) * 7 + shift).reshape(height, width, 3) % 256
    image = Image.fromarray(ramp.astype(np.uint8))
    if mode == "I;16":
        return Image.fromarray((ramp[..., 0] * 257).astype(np.uint16))
    if mode == "LAB":
        return Image.frombytes("LAB", SIDES, image.tobytes())
    if mode in ("LA", "RGBA"):
        image.putalpha(Image.fromarray((255 - ramp[..., 1]).astype(np.uint8)))
        return image.convert(mode)
    return image.convert(mode)


def _saved(image: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)  # type: ignore[arg-type]
    return file.getvalue()
