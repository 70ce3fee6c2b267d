"""Folders (or zip files) of images: with one sub-folder per class, or without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from holdfast.data.readers.base import TreeReader, check_fraction, register
from holdfast.data.sources import FileSource
from holdfast.data.splits import zero_shot
from holdfast.data.table import SPLITS, ImageTable
from holdfast.data.tree import Tree, user_path

SPLIT_FOLDERS = {split: split for split in SPLITS} | {"valid": "val", "validation": "val"}


@register("folder")
@dataclass(frozen=True, kw_only=True)
class ImageFolder(TreeReader):
    """A folder or zip file: `CLASS/*.jpg`, or `train/CLASS/*.jpg` and `test/CLASS/*.jpg`.

    The second layout may also have `val`, `query` and `gallery`. In the first, whole classes are held out for testing,
    so that retrieval is measured on classes never trained on. Class folders may be nested: the class is the path
    `a/b`. Images are found by extension (jpg, jpeg, png, webp, bmp, gif, tif, tiff; avif with Pillow 11.3 or newer,
    heic and heif with the extra `heic`); hidden files, and links that lead out of the folder, are skipped.

    Args:
        root: the folder or zip file.
        follow_links: read what links lead to outside of the folder.
        test: fraction of the classes to hold out for testing where the folders name no splits; 1 tests on everything.
        test_seed: of that choice.

    Requirements: two or more classes.
    Relations: `csv` for labels that are not folder names, coarse labels or groups.
    """

    layout: ClassVar[str] = "a folder or zip file with a sub-folder of images per class, or train/ and test/ of those"
    test: float = 0.5
    test_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("test", self.test)

    def read_tree(self, tree: Tree) -> ImageTable:
        """The labelled images, split by folder or by class."""
        placed = _place(tree)
        if not placed:
            raise self.refused("has no images in class folders")
        splits, classes = ([*column] for column in zip(*placed.values(), strict=True))
        if len(set(classes)) < 2:
            raise self.refused(f"holds only one class ('{classes[0]}')")
        if not any(splits):
            splits = zero_shot(classes, self.test, self.test_seed)
        return self.table_of(tree, list(placed), classes=classes, splits=splits)


def _place(tree: Tree) -> dict[str, tuple[str, str]]:
    """Image → split (empty where folders name none) and class; images without a class folder are left out."""
    folders = {name: name.split("/")[:-1] for name in tree.images()}
    folders = {name: parts for name, parts in folders.items() if parts}
    depth = _shared_depth(list(folders.values()))
    folders = {name: parts[depth:] for name, parts in folders.items()}
    tops = {parts[0].lower() for parts in folders.values()}
    # A class may be called "train" beside "car" and "bus"; together with a test folder it is a split.
    names_splits = bool(tops) and (tops <= SPLIT_FOLDERS.keys() or ("train" in tops and tops & {"test", "gallery"}))
    if not names_splits:
        return {name: ("", "/".join(parts)) for name, parts in folders.items()}
    return {
        name: (SPLIT_FOLDERS[parts[0].lower()], "/".join(parts[1:]))
        for name, parts in folders.items()
        if parts[0].lower() in SPLIT_FOLDERS and len(parts) > 1
    }


def _shared_depth(folders: list[list[str]]) -> int:
    """How many leading folders all images share (as in a zip of one folder), not counting splits and classes."""
    depth = 0
    while folders and all(len(f) > depth + 1 for f in folders):
        heads = {f[depth] for f in folders}
        if len(heads) > 1 or heads.pop().lower() in SPLIT_FOLDERS:
            break
        depth += 1
    return depth


@register("images")
@dataclass(frozen=True, kw_only=True)
class Images(TreeReader):
    """Every image of a folder or zip file, sub-folders included, without a label: to embed, to index, to search.

    Args:
        root: the folder or zip file.
        follow_links: read what links lead to outside of the folder.

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
