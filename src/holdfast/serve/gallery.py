"""The images behind an index, for those who look at its page."""

from __future__ import annotations

import io
import random

from PIL import Image

from holdfast.data import ImageTable
from holdfast.search import Index
from holdfast.search.named_images import NamedImages
from holdfast.view import View

LOOKED_UP = 10_000
"""Images of which a few are shown at the beginning."""


class GalleryImages:
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

    def shown(self, index: Index) -> list[str]:
        """Names of images that are here and in an index; of very many a seeded choice is looked up."""
        names = self._images.names
        some = random.Random(0).sample(names, min(len(names), LOOKED_UP))
        known = index.known(some)
        return [name for name in some if name in known]
