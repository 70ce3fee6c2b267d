"""Answers as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from importlib.resources import files

from PIL import Image

from holdfast.data import ImageTable
from holdfast.errors import one_line
from holdfast.search.named_images import NamedImages
from holdfast.search.querying import Answer

SIDE = 112
"""Of a thumbnail, in pixels."""


def strip_page(answers: Sequence[Answer], queries: ImageTable | None, gallery: ImageTable | None, note: str) -> str:
    """Each query beside what was found for it.

    Args:
        answers: what to show.
        queries: the images asked about; None leaves them out.
        gallery: images of the index by id, as the reader of the page's maker found them; an id is only ever looked
            up in this table, never opened as a path. None leaves them out.
        note: a line above the answers.
    """
    import jinja2

    template = files("holdfast.search").joinpath("strip.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["one_line"] = one_line
    images = {"image_of_query": Thumbnails(queries).of, "image_of_match": Thumbnails(gallery).of}
    return environment.from_string(template).render(answers=answers, note=note, **images)


class Thumbnails:
    """Thumbnails of a table by id, as data addresses; None for what it does not hold or cannot read."""

    def __init__(self, table: ImageTable | None) -> None:
        self._images = NamedImages(table)

    def of(self, name: str) -> str | None:
        """The thumbnail of an id."""
        pixels = self._images.pixels(name)
        if pixels is None:
            return None
        thumbnail = Image.fromarray(pixels)
        thumbnail.thumbnail((SIDE, SIDE))
        out = io.BytesIO()
        kind = "png" if max(thumbnail.size) <= 48 else "jpeg"
        thumbnail.save(out, kind)
        return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode()}"
