"""Omniglot."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.data.readers.base import Reader, register
from holdfast.data.table import ImageTable
from holdfast.data.tree import open_tree
from holdfast.errors import DataError

SPLITS = {"images_background": "train", "images_evaluation": "test"}
LAYOUT = "Omniglot's images_background/ and images_evaluation/ as folders or zip files"


@register("omniglot")
@dataclass(frozen=True, kw_only=True)
class Omniglot(Reader):
    """1,623 handwritten characters of 50 alphabets, 20 drawings each, 105×105 pixels.

    The fine label is alphabet and character, the coarse label the alphabet; the background alphabets train, the
    evaluation alphabets test.

    Args:
        root: a folder or zip file with `images_background` and `images_evaluation`, or a folder that holds them as
            zip files.

    Relations: `glyphs` is a printed relative that needs no download.
    Reference: Lake et al., Science 2015.
    """

    root: str

    def read(self) -> ImageTable:
        """All drawings."""
        tree = open_tree(self.root, LAYOUT, archives=("omniglot.zip", "images_*.zip"))
        drawings = [(name, parts) for name in tree.images() if (parts := _parts(name)) is not None]
        if {SPLITS[top] for _, (top, _, _) in drawings} != {"train", "test"}:
            raise DataError(f"'{self.root}' does not hold Omniglot; expected {LAYOUT}")
        names = [name for name, _ in drawings]
        return ImageTable.of(
            tree.source(names),
            classes=[f"{alphabet}/{character}" for _, (_, alphabet, character) in drawings],
            splits=[SPLITS[top] for _, (top, _, _) in drawings],
            ids=names,
            name="omniglot",
            coarse=[alphabet for _, (_, alphabet, _) in drawings],
            skipped_files=tree.skipped_files(names, within=""),
        )


def _parts(name: str) -> tuple[str, str, str] | None:
    """Set, alphabet and character of a drawing's path, whatever folder it was unpacked in."""
    parts = name.split("/")[-4:-1]
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 and parts[0] in SPLITS else None
