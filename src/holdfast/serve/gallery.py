"""The images behind an index, for those who look at its page."""

from __future__ import annotations

import io
from collections.abc import Iterable

from PIL import Image

from holdfast.data import BadImage, ImageTable
from holdfast.view import View


class Gallery:
    """Images by the names that an index has for them; a name is only ever looked up in a table, never opened as a path.

    Args:
        table: the images.
        view: they are shown at its canvas.
    """

    def __init__(self, table: ImageTable, view: View) -> None:
        self._table, self._view = table, view
        self._row_of = {name: row for row, name in enumerate(table.ids)}

    def png(self, name: str) -> bytes | None:
        """An image as the model's canvas shows it; None where there is none of that name, or none that can be read."""
        row = self._row_of.get(name)
        if row is None:
            return None
        try:
            pixels = self._table.source.image(int(self._table.positions[row]), self._view)
        except BadImage:
            return None
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "png", compress_level=1)
        return out.getvalue()

    def shown(self, names: Iterable[str]) -> list[str]:
        """Those of some names whose images are here."""
        return [name for name in names if name in self._row_of]
