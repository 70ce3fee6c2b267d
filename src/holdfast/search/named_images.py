"""The images of a table by the names that an index has for them."""

from __future__ import annotations

from holdfast.data import BadImage, ImageTable
from holdfast.data.resampling import Pixels
from holdfast.view import View


class NamedImages:
    """Looks names up in a table; none is ever opened as a path.

    Args:
        table: the images; None holds none.
    """

    def __init__(self, table: ImageTable | None) -> None:
        self._table = table
        self._row_of = {} if table is None else {name: row for row, name in enumerate(table.ids)}

    @property
    def names(self) -> list[str]:
        """Of all images."""
        return list(self._row_of)

    def pixels(self, name: str, view: View | None = None) -> Pixels | None:
        """An image, resized for a view when given; None where there is none of that name, or none that can be read."""
        row = self._row_of.get(name)
        if row is None or self._table is None:
            return None
        try:
            return self._table.source.image(int(self._table.positions[row]), view)
        except BadImage:
            return None
