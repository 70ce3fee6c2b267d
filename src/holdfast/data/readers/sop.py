"""Stanford Online Products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.data.readers.base import TreeReader, register
from holdfast.data.table import ImageTable
from holdfast.data.tree import Tree
from holdfast.errors import DataError


@register("sop")
@dataclass(frozen=True, kw_only=True)
class OnlineProducts(TreeReader):
    """120,053 photographs of 22,634 products in twelve categories; the published split by product.

    The fine label is the product, the coarse label its category.

    Args:
        root: the folder `Stanford_Online_Products` (or one around it), or its zip file.

    Relations: `inshop` is the other large benchmark of products, with queries and a gallery.
    Reference: Song et al., CVPR 2016.
    """

    layout: ClassVar[str] = "Stanford_Online_Products as published (Ebay_train.txt, Ebay_test.txt, bicycle_final/, ...)"

    def read_tree(self, tree: Tree) -> ImageTable:
        """All photographs."""
        rows: list[tuple[str, str, str, str]] = []
        for split in ("train", "test"):
            listing = tree.find(f"Ebay_{split}.txt")
            if listing is None:
                raise self.refused(f"has no 'Ebay_{split}.txt'")
            folder = listing.removesuffix(f"Ebay_{split}.txt")
            head, *lines = tree.listed(listing, "image class super-class path") or [[""]]
            if len(head) != 4 or head[0].isdigit():
                raise DataError(f"'{listing}' does not begin with its line of titles; fetch it again")
            rows += [(split, folder + path, product, path.partition("/")[0]) for _, product, _, path in lines]
        if not rows:
            raise DataError(f"the lists in '{self.root}' name no photographs; fetch them again")
        splits, names, products, categories = ([*column] for column in zip(*rows, strict=True))
        self.require(tree, names)
        coarse = [category.removesuffix("_final") for category in categories]
        return self.table_of(tree, names, within=folder, classes=products, splits=splits, coarse=coarse)
