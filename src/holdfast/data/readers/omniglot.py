"""Omniglot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.data.readers.base import TreeReader, register
from holdfast.data.table import ImageTable
from holdfast.data.tree import Tree

SPLITS = {"images_background": "train", "images_evaluation": "test"}


@register("omniglot")
@dataclass(frozen=True, kw_only=True)
class Omniglot(TreeReader):
    """1,623 handwritten characters of 50 alphabets, 20 drawings each, 105×105 pixels.

    The fine label is alphabet and character, the coarse label the alphabet; the background alphabets train, the
    evaluation alphabets test.

    Args:
        root: a folder or zip file with `images_background` and `images_evaluation`, or a folder that holds them as
            zip files.

    Relations: `glyphs` is a printed relative that needs no download.
    Reference: Lake et al., Science 2015.
    """

    layout: ClassVar[str] = "Omniglot's images_background/ and images_evaluation/ as folders or zip files"
    archives: ClassVar[tuple[str, ...]] = ("omniglot.zip", "images_*.zip")

    def read_tree(self, tree: Tree) -> ImageTable:
        """All drawings."""
        drawings = {name: parts for name in tree.images() if (parts := _parts(name)) is not None}
        splits = [SPLITS[top] for top, _, _ in drawings.values()]
        if set(splits) != {"train", "test"}:
            raise self.refused("does not hold Omniglot")
        classes = [f"{alphabet}/{character}" for _, alphabet, character in drawings.values()]
        coarse = [alphabet for _, alphabet, _ in drawings.values()]
        return self.table_of(tree, [*drawings], within="", classes=classes, splits=splits, coarse=coarse)


def _parts(name: str) -> tuple[str, str, str] | None:
    """Set, alphabet and character of a drawing's path, whatever folder it was unpacked in."""
    parts = name.split("/")[-4:-1]
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 and parts[0] in SPLITS else None
