"""Stanford Online Products."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.data.readers.base import Reader, register
from holdfast.data.table import ImageTable
from holdfast.data.tree import open_tree, require
from holdfast.errors import DataError

LAYOUT = "Stanford_Online_Products as published (Ebay_train.txt, Ebay_test.txt and folders such as bicycle_final/)"


@register("sop")
@dataclass(frozen=True, kw_only=True)
class OnlineProducts(Reader):
    """120,053 photographs of 22,634 products in twelve categories; the published split by product.

    The fine label is the product, the coarse label its category.

    Args:
        root: the folder `Stanford_Online_Products` (or one around it), or its zip file.

    Relations: `inshop` is the other large benchmark of products, with queries and a gallery.
    Reference: Song et al., CVPR 2016.
    """

    root: str

    def read(self) -> ImageTable:
        """All photographs."""
        tree = open_tree(self.root, LAYOUT)
        names: list[str] = []
        products: list[str] = []
        categories: list[str] = []
        splits: list[str] = []
        for split in ("train", "test"):
            listing = tree.find(f"Ebay_{split}.txt")
            if listing is None:
                raise DataError(f"there is no 'Ebay_{split}.txt' in '{self.root}'; expected {LAYOUT}")
            folder = listing.removesuffix(f"Ebay_{split}.txt")
            head, *lines = tree.text(listing).splitlines() or [""]
            if len(head.split()) != 4 or head.split()[0].isdigit():
                raise DataError(f"'{listing}' does not begin with its line of titles; fetch it again")
            for line in lines:
                cells = line.split()
                if len(cells) != 4:
                    raise DataError(
                        f"'{listing}': a line is not 'image class super-class path'; fetch it again: {line}"
                    )
                names.append(folder + cells[3])
                products.append(cells[1])
                categories.append(cells[3].partition("/")[0].removesuffix("_final"))
                splits.append(split)
        if not names:
            raise DataError(f"the lists in '{self.root}' name no photographs; fetch them again")
        require(tree, names, self.root, self.skip_bad)
        return ImageTable.of(
            tree.source(names),
            classes=products,
            splits=splits,
            ids=names,
            name="sop",
            coarse=categories,
            skipped_files=tree.skipped_files(names, within=folder),
        )
