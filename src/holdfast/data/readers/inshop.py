"""In-shop Clothes Retrieval (DeepFashion)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.data.readers.base import TreeReader, register
from holdfast.data.table import ImageTable
from holdfast.data.tree import Tree
from holdfast.errors import DataError, one_line

LISTING = "list_eval_partition.txt"


@register("inshop")
@dataclass(frozen=True, kw_only=True)
class InShop(TreeReader):
    """52,712 photographs of 7,982 clothing items; the published train, query and gallery parts.

    The fine label is the item, the coarse label its category, such as WOMEN/Dresses.

    Args:
        root: the dataset's folder, or a zip file of it.

    Relations: `sop` is the other large benchmark of products, without separate queries.
    Reference: Liu et al., CVPR 2016.
    """

    layout: ClassVar[str] = f"In-shop Clothes Retrieval as published ({LISTING}, also in Eval/; img/, also in Img/)"

    def read_tree(self, tree: Tree) -> ImageTable:
        """All photographs of the partition list."""
        listing = tree.find(LISTING)
        if listing is None:
            raise self.refused(f"has no '{LISTING}'")
        rows = tree.listed(listing, "image item part", head=2)
        said = one_line(tree.text(listing).partition("\n")[0].strip()[:20])
        if said != str(len(rows)) or not rows:
            raise DataError(f"'{listing}' says that it lists {said} images, and lists {len(rows)}; fetch it again")
        images, items, parts = ([*column] for column in zip(*rows, strict=True))
        for part in {*parts} - {"train", "query", "gallery"}:
            raise DataError(f"'{listing}' names a part '{part}'; fetch it again")
        folder = _image_folder(tree)
        names = [folder + image for image in images]
        self.require(tree, names)
        coarse = ["/".join(image.split("/")[1:3]) for image in images]
        return self.table_of(tree, names, images, f"{folder}img/", classes=items, splits=parts, coarse=coarse)


def _image_folder(tree: Tree) -> str:
    """What comes before `img/` in the path of an image."""
    first = next((name for name in tree.images() if "/img/" in f"/{name}"), "img/")
    return (f"/{first}".partition("/img/")[0] + "/").lstrip("/")
