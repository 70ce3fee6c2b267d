"""CUB-200-2011."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from holdfast.data.readers.base import TreeReader, register
from holdfast.data.table import ImageTable
from holdfast.data.tree import Tree

CLASS = re.compile(r"(\d{3})\..+")


@register("cub")
@dataclass(frozen=True, kw_only=True)
class Cub(TreeReader):
    """11,788 photographs of 200 bird species; species 1-100 train, 101-200 test.

    Args:
        root: the folder `CUB_200_2011` (or one around it), or a folder that holds class folders in `cub*.zip`.

    Relations: `cars` and `sop` are its usual companions.
    Reference: Wah et al., 2011; the split: Song et al., CVPR 2016.
    """

    layout: ClassVar[str] = "CUB_200_2011 as published (images.txt and images/), or its class folders in cub*.zip"
    archives: ClassVar[tuple[str, ...]] = ("cub*.zip",)

    def read_tree(self, tree: Tree) -> ImageTable:
        """The photographs that the official list names, or, without one, those in numbered folders."""
        listing = tree.find("images.txt")
        if listing is None:
            within = ""
            names = sorted((n for n in tree.images() if _species(n) is not None), key=lambda n: n.split("/")[-2:])
        else:
            within = listing.removesuffix("images.txt") + "images/"
            names = [within + name.strip() for _, name in tree.listed(listing, "number image")]
            self.require(tree, names)
        species = [number for name in names if (number := _species(name)) is not None]
        if not names or len(species) < len(names):
            raise self.refused("does not hold CUB-200-2011")
        classes, ids = [name.split("/")[-2] for name in names], [name.split("images/")[-1] for name in names]
        splits = ["train" if number <= 100 else "test" for number in species]
        return self.table_of(tree, names, ids, within, classes=classes, splits=splits)


def _species(name: str) -> int | None:
    parts = name.split("/")
    match = CLASS.fullmatch(parts[-2]) if len(parts) > 1 else None
    return int(match[1]) if match else None
