"""CUB-200-2011."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.data.readers.base import Reader, register
from holdfast.data.table import ImageTable
from holdfast.data.tree import Tree, open_tree, require
from holdfast.errors import DataError

LAYOUT = (
    "CUB_200_2011 as published (images.txt, images/001.Black_footed_Albatross/...) or its class folders in zip files"
)
CLASS = re.compile(r"(\d{3})\..+")


@register("cub")
@dataclass(frozen=True, kw_only=True)
class Cub(Reader):
    """11,788 photographs of 200 bird species; species 1-100 train, 101-200 test.

    Args:
        root: the folder `CUB_200_2011` (or one around it), or a folder that holds class folders in `cub*.zip`.

    Relations: `cars` and `sop` are its usual companions.
    Reference: Wah et al., 2011; the split: Song et al., CVPR 2016.
    """

    root: str

    def read(self) -> ImageTable:
        """All photographs."""
        tree = open_tree(self.root, LAYOUT, archives=("cub*.zip",))
        names, within = self._names(tree)
        species = [_species(name) for name in names]
        if not names or None in species:
            raise DataError(f"'{self.root}' does not hold CUB-200-2011; expected {LAYOUT}")
        folders = [name.split("/")[-2] for name in names]
        return ImageTable.of(
            tree.source(names),
            classes=folders,
            splits=["train" if number is not None and number <= 100 else "test" for number in species],
            ids=[name.split("images/")[-1] for name in names],
            name="cub",
            skipped_files=tree.skipped_files(names, within),
        )

    def _names(self, tree: Tree) -> tuple[list[str], str]:
        """The photographs that the official list names, or, without one, those in numbered folders; where they lie."""
        listing = tree.find("images.txt")
        if listing is None:
            found = sorted((n for n in tree.images() if _species(n) is not None), key=lambda n: n.split("/")[-2:])
            return found, ""
        folder = listing.removesuffix("images.txt") + "images/"
        rows = [line.split(maxsplit=1) for line in tree.text(listing).splitlines() if line.strip()]
        if any(len(row) != 2 for row in rows):
            raise DataError(f"'{listing}' does not list 'number image' on each line; fetch it again")
        names = [folder + row[1].strip() for row in rows]
        require(tree, names, self.root, self.skip_bad)
        return names, folder


def _species(name: str) -> int | None:
    parts = name.split("/")
    match = CLASS.fullmatch(parts[-2]) if len(parts) > 1 else None
    return int(match[1]) if match else None
