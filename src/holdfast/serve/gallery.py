"""The images behind an index, for those who look at its page."""

from __future__ import annotations

import io
from collections.abc import Iterable

from PIL import Image

from holdfast.data import ImageTable
from holdfast.search.named_images import NamedImages
from holdfast.view import View


class Gallery:
    """Images as a model's canvas shows them.

    Args:
        table: the images.
        view: of the model.
    """

    def __init__(self, table: ImageTable, view: View) -> None:
        self._images, self._view = NamedImages(table), view

    def png(self, name: str) -> bytes | None:
        """An image by its name, if it is here."""
        pixels = self._images.pixels(name, self._view)
        if pixels is None:
            return None
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "png", compress_level=1)
        return out.getvalue()

    def shown(self, names: Iterable[str]) -> list[str]:
        """Those of some names whose images are here."""
        return [name for name in names if name in self._images]
