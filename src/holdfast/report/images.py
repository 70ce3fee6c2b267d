"""Pictures as part of the page."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from markupsafe import Markup

SMALL = 64
"""Up to this side, a picture is shown with visible pixels instead of a blur."""
BUDGET = 5_500_000
"""Bytes of picture files per page: a third more in base64, so that a page stays under 8 MB."""
_STARTS = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg"}


class Pictures:
    """Reads the pictures that the exhibits name and writes them into the page.

    Args:
        folder: what picture files are relative to; nothing outside is read.
        shown: leave every picture out if not.
    """

    def __init__(self, folder: Path, shown: bool = True) -> None:
        self.shown = shown
        self.left_out = 0
        self._folder = folder.resolve()
        self._known: dict[str, str | None] = {}
        self._bytes = 0

    def tag(self, picture: Any) -> Markup:
        """An `<img>`, or nothing where there is no picture to show."""
        if not isinstance(picture, dict):
            return Markup("")
        source = self.source(picture.get("file"))
        if source is None:
            return Markup("")
        width, height = (_side(picture.get(key)) for key in ("width", "height"))
        kind = " pixels" if max(width, height) <= SMALL else ""
        return Markup('<img class="pic{}" src="{}" width="{}" height="{}" alt="{}">').format(
            kind, source, width, height, str(picture.get("alt", ""))
        )

    def source(self, name: Any) -> str | None:
        """A picture file as a data URI; None if it is not there, not a picture, elsewhere, or over the budget."""
        if not self.shown or not isinstance(name, str):
            return None
        if name not in self._known:
            self._known[name] = self._read(name)
        known = self._known[name]
        if known is None:
            return None
        self._bytes += len(known) * 3 // 4
        if self._bytes > BUDGET:
            self.left_out += 1
            return None
        return known

    def _read(self, name: str) -> str | None:
        try:
            file = (self._folder / name).resolve()
            if self._folder not in file.parents or not file.is_file() or file.stat().st_size > BUDGET:
                return None
            content = file.read_bytes()
        except (OSError, ValueError):
            return None
        kind = next((kind for start, kind in _STARTS.items() if content.startswith(start)), None)
        return None if kind is None else f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _side(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10_000 else 96
