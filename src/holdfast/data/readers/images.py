"""Images without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.data.readers.base import Reader, register
from holdfast.data.skipped import NOTHING, SkippedFiles
from holdfast.data.sources import FileSource, ImageSource
from holdfast.data.table import ImageTable
from holdfast.data.tree import open_tree, user_path
from holdfast.errors import DataError

LAYOUT = "a folder or zip file of images, in sub-folders or not"


@register("images")
@dataclass(frozen=True, kw_only=True)
class Images(Reader):
    """Every image of a folder or zip file, sub-folders included, without a label: to embed, to index, to search.

    Args:
        root: the folder or zip file.

    Requirements: nothing that needs labels (training, evaluation, audits).
    Relations: `folder` where sub-folders are classes.
    """

    root: str

    def read(self) -> ImageTable:
        """The images, all in the split `gallery`."""
        tree = open_tree(self.root, LAYOUT)
        names = tree.images()
        if not names:
            raise DataError(f"no images under '{self.root}'; expected {LAYOUT}")
        return unlabelled(tree.source(names), names, tree.skipped_files(names))


def unlabelled(source: ImageSource, ids: Sequence[str], skipped_files: SkippedFiles = NOTHING) -> ImageTable:
    """Images of no known class."""
    return ImageTable.of(
        source,
        classes=[""] * len(ids),
        splits=["gallery"] * len(ids),
        ids=ids,
        name="images",
        skipped_files=skipped_files,
    )


def image_files(paths: Sequence[str | Path]) -> ImageTable:
    """Single image files as a table without labels."""
    return unlabelled(FileSource([user_path(path) for path in paths]), [str(path) for path in paths])
