"""In-shop Clothes Retrieval (DeepFashion)."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.data.readers.base import Reader, register
from holdfast.data.table import ImageTable
from holdfast.data.tree import Tree, open_tree, require
from holdfast.errors import DataError, one_line

LISTING = "list_eval_partition.txt"
LAYOUT = f"In-shop Clothes Retrieval as published ({LISTING}, perhaps in Eval/, and img/, perhaps in Img/)"


@register("inshop")
@dataclass(frozen=True, kw_only=True)
class InShop(Reader):
    """52,712 photographs of 7,982 clothing items; the published train, query and gallery parts.

    The fine label is the item, the coarse label its category, such as WOMEN/Dresses.

    Args:
        root: the dataset's folder, or a zip file of it.

    Relations: `sop` is the other large benchmark of products, without separate queries.
    Reference: Liu et al., CVPR 2016.
    """

    root: str

    def read(self) -> ImageTable:
        """All photographs of the partition list."""
        tree = open_tree(self.root, LAYOUT)
        listing = tree.find(LISTING)
        if listing is None:
            raise DataError(f"there is no '{LISTING}' in '{self.root}'; expected {LAYOUT}")
        lines = tree.text(listing).splitlines()
        rows = [line.split() for line in lines[2:] if line.strip()]
        if not rows or any(len(row) != 3 for row in rows):
            raise DataError(f"'{listing}' does not list 'image item part' on each line; fetch it again")
        if lines[0].strip() != str(len(rows)):
            said = one_line(lines[0].strip()[:20])
            raise DataError(f"'{listing}' says that it lists {said} images, and lists {len(rows)}; fetch it again")
        for part in {row[2] for row in rows} - {"train", "query", "gallery"}:
            raise DataError(f"'{listing}' names a part '{part}'; fetch it again")
        folder = _image_folder(tree)
        names = [folder + row[0] for row in rows]
        require(tree, names, self.root, self.skip_bad)
        return ImageTable.of(
            tree.source(names),
            classes=[row[1] for row in rows],
            splits=[row[2] for row in rows],
            ids=[row[0] for row in rows],
            name="inshop",
            coarse=["/".join(row[0].split("/")[1:3]) for row in rows],
            skipped_files=tree.skipped_files(names, within=f"{folder}img/"),
        )


def _image_folder(tree: Tree) -> str:
    """What comes before `img/` in the path of an image."""
    first = next((name for name in tree.images() if "/img/" in f"/{name}"), "img/")
    return (f"/{first}".partition("/img/")[0] + "/").lstrip("/")
