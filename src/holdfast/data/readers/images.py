"""Images without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from holdfast.data.readers.base import TreeReader, register
from holdfast.data.sources import FileSource
from holdfast.data.table import ImageTable
from holdfast.data.tree import Tree, user_path


@register("images")
@dataclass(frozen=True, kw_only=True)
class Images(TreeReader):
    """Every image of a folder or zip file, sub-folders included, without a label: to embed, to index, to search.

    Args:
        root: the folder or zip file.

    Requirements: nothing that needs labels (training, evaluation, audits).
    Relations: `folder` where sub-folders are classes.
    """

    layout: ClassVar[str] = "a folder or zip file of images, in sub-folders or not"

    def read_tree(self, tree: Tree) -> ImageTable:
        """The images, all in the split `gallery`."""
        names = tree.images()
        if not names:
            raise self.refused("has no images")
        return self.table_of(tree, names, classes=[""] * len(names), splits=["gallery"] * len(names))


def image_files(paths: Sequence[str | Path]) -> ImageTable:
    """Single image files as a table without labels."""
    source, ids = FileSource([user_path(path) for path in paths]), [str(path) for path in paths]
    return ImageTable.of(source, classes=[""] * len(ids), splits=["gallery"] * len(ids), ids=ids, name="images")
