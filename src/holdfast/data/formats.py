"""Image files: which formats can be read here, and what Pillow says of a file, in our words."""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any

from PIL import Image, UnidentifiedImageError

from holdfast.errors import one_line, reason

HEIC = ("pillow_heif", "`pip install 'holdfast[heic]'`")
NEEDED = {".avif": "Pillow 11.3 or newer", ".heic": HEIC[1], ".heif": HEIC[1]}
"""Formats that not every installation reads, and what does."""


def _readable() -> frozenset[str]:
    """Extensions of the formats that can be read here, in small letters."""
    with suppress(ImportError):
        importlib.import_module(HEIC[0]).register_heif_opener()
    always = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
    return frozenset(always | (NEEDED.keys() & Image.registered_extensions().keys()))


EXTENSIONS = _readable()


def is_image(name: str) -> bool:
    """Whether the extension, in any case, is one of an image that can be read here."""
    return PurePosixPath(name).suffix.lower() in EXTENSIONS


def needed(names: Sequence[str]) -> str:
    """What would read the images among some files that cannot be read here; nothing where there are none."""
    kinds = {PurePosixPath(name).suffix.lower() for name in names}
    return "; ".join(f"{kind} needs {NEEDED[kind]}" for kind in sorted(kinds & (NEEDED.keys() - EXTENSIONS)))


def why_unreadable(error: BaseException) -> str:
    """What is wrong with an image that could not be decoded."""
    if isinstance(error, Image.DecompressionBombError):
        return f"it has over {2 * (Image.MAX_IMAGE_PIXELS or 0) / 1e6:,.0f} million pixels; save a smaller copy"
    if isinstance(error, UnidentifiedImageError):
        return "it is no image, or its beginning is damaged"
    return reason(error)


WORDS = {
    "decompression bomb": "very large and slow to read; a smaller copy would do",
    "MPO": "a second image inside the file is damaged; the first one was read",
    "EXIF": "the metadata (EXIF) are damaged, so the image may not stand upright",
    "Truncated File Read": "the metadata are damaged; the image itself was read",
    "Metadata Warning": "the metadata are damaged; the image itself was read",
}
"""A sign of each warning of Pillow, and what it means to the owner of the file."""


def in_our_words(warning: str) -> str:
    """A warning of Pillow as a person with photographs understands it."""
    return next((words for sign, words in WORDS.items() if sign in warning), f"Pillow warns: {one_line(warning)[:100]}")


class _Heard(threading.local):
    lines: list[str] | None = None


_heard = _Heard()
_lock = threading.Lock()
_before: Any = warnings.showwarning


def _show(message: Warning | str, *arguments: Any, **named: Any) -> None:
    """In place of `warnings.showwarning`: what is said while a thread reads an image is kept for that image."""
    if _heard.lines is None:
        _before(message, *arguments, **named)
    else:
        _heard.lines.append(str(message))


@contextmanager
def listening() -> Iterator[list[str]]:
    """Keep what Pillow warns of in this thread out of the terminal; `catch_warnings` would be for all threads."""
    global _before
    with _lock:
        if warnings.showwarning is not _show:
            _before, warnings.showwarning = warnings.showwarning, _show
    lines: list[str] = []
    _heard.lines = lines
    try:
        yield lines
    finally:
        _heard.lines = None
