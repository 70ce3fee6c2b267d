"""Images of a page: written as files by `collect`, and later read into the page."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from markupsafe import Markup

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from holdfast.data import ImageStore

FOLDER = "pictures"
"""Beside `exhibits.json`."""
SMALL = 64
"""Up to this side, an image is shown with visible pixels instead of a blur."""
BUDGET = 5_500_000
"""Bytes of image files per page: a third more in base64, so that a page stays under 8 MB."""
LOOKED_AT = 224
"""Side of an image that is only looked at: what most models see, and enough to be enlarged on a screen."""
LOSSLESS = 112
"""Up to this side such images are stored as PNG, above as JPEG."""
EXACT = 256
"""Longest side of an image that is stored to the bit; a page of larger ones would be too heavy."""
TILE, COLUMNS = 64, 20
QUALITY = 85
_STARTS = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg"}

Named: TypeAlias = dict[str, Any] | None
"""`{"file", "width", "height", "alt"}`, or None where no images are wanted."""


class PageImages:
    """Reads the image files that the exhibits name and writes them into the page.

    Args:
        folder: what they are relative to; nothing outside is read.
        shown: leave every image out if not.
    """

    def __init__(self, folder: Path, shown: bool = True) -> None:
        self.shown = shown
        self.left_out = 0
        self._folder = folder.resolve()
        self._known: dict[str, str | None] = {}
        self._bytes = 0

    def tag(self, image: Any) -> Markup:
        """An `<img>`, or nothing where there is no image to show."""
        if not isinstance(image, dict):
            return Markup("")
        source = self.source(image.get("file"))
        if source is None:
            return Markup("")
        width, height = (_side(image.get(key)) for key in ("width", "height"))
        kind = " pixels" if max(width, height) <= SMALL else ""
        return Markup('<img class="pic{}" src="{}" width="{}" height="{}" alt="{}" decoding="async">').format(
            kind, source, width, height, str(image.get("alt", ""))
        )

    def source(self, name: Any) -> str | None:
        """An image file as a data URI; None if it is not there, not an image, elsewhere, or over the budget."""
        if not self.shown or not isinstance(name, str):
            return None
        if name not in self._known:
            self._known[name] = self._read(name)
        known = self._known[name]
        if known is None:
            return None
        self._bytes += len(known) * 3 // 4
        if self._bytes > BUDGET:
            self.left_out += 1
            return None
        return known

    def _read(self, name: str) -> str | None:
        try:
            file = (self._folder / name).resolve()
            if self._folder not in file.parents or not file.is_file() or file.stat().st_size > BUDGET:
                return None
            content = file.read_bytes()
        except (OSError, ValueError):
            return None
        kind = next((kind for start, kind in _STARTS.items() if content.startswith(start)), None)
        return None if kind is None else f"data:{kind};base64,{base64.b64encode(content).decode()}"


class ImageFiles:
    """Writes image files: small, each image once, and none at all where they are private.

    Args:
        folder: where they go; None writes nothing and gives None for every image.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._count = 0
        self._known: dict[tuple[int, int], Named] = {}

    def of(self, store: ImageStore, row: int, alt: str) -> Named:
        """An image of a store, for looking at; asked for again it is the same file."""
        if self.folder is None:
            return None
        key = (id(store), row)
        if key not in self._known:
            self._known[key] = self.seen(_photograph(store, row), "")
        return {**(self._known[key] or {}), "alt": alt}

    def exact(self, image: Tensor, alt: str) -> Named:
        """An image in [0, 1] as 8 bits hold it, without loss."""
        return None if self.folder is None else {**self._save(image, EXACT, "png"), "alt": alt}

    def seen(self, image: Tensor, alt: str) -> Named:
        """An image in [0, 1] for looking at, such as a perturbation; without loss only where it is small."""
        kind = "png" if image.shape[-1] <= LOSSLESS else "jpg"
        return None if self.folder is None else {**self._save(image, LOOKED_AT, kind), "alt": alt}

    def sprite(self, store: ImageStore, rows: Tensor) -> dict[str, Any] | None:
        """Many images as the tiles of one JPEG, row by row."""
        from PIL import Image

        if self.folder is None:
            return None
        sheet = Image.new("RGB", (TILE * min(COLUMNS, len(rows)), TILE * -(-len(rows) // COLUMNS)))
        for place, image in enumerate(store.inputs(rows.cpu())):
            corner = (TILE * (place % COLUMNS), TILE * (place // COLUMNS))
            sheet.paste(_drawn(image).resize((TILE, TILE), Image.Resampling.BICUBIC), corner)
        sheet.save(self.folder / "map.jpg", quality=QUALITY)
        return {"file": f"{FOLDER}/map.jpg", "tile": TILE, "columns": COLUMNS}

    def _save(self, image: Tensor, side: int, kind: str) -> dict[str, Any]:
        """A file of an image, reduced to `side` where it is larger."""
        from PIL import Image

        assert self.folder is not None
        drawn = _drawn(image)
        if drawn.width > side:
            drawn = drawn.resize((side, side), Image.Resampling.LANCZOS)
        self._count += 1
        name = f"{self._count:04d}.{kind}"
        options: dict[str, Any] = {"optimize": True} if kind == "png" else {"quality": QUALITY}
        drawn.save(self.folder / name, **options)
        return {"file": f"{FOLDER}/{name}", "width": drawn.width, "height": drawn.height}


def _photograph(store: ImageStore, row: int) -> Tensor:
    """What a model sees of an image, but sharp: where it sees few pixels of a large photograph, with more of them."""
    import torch
    from PIL import Image

    from holdfast.data import RaggedImages, centre_crop
    from holdfast.data.sources import resized

    view, table = store.view, store.table
    if view.size < LOOKED_AT:
        larger = dataclasses.replace(view, size=LOOKED_AT, canvas=-(-view.canvas * LOOKED_AT // view.size))
        whole = table.source.image(int(table.positions[row]))
        if all(wanted <= there for wanted, there in zip(larger.resized(*whole.shape[:2]), whole.shape, strict=False)):
            return centre_crop(RaggedImages.of([resized(Image.fromarray(whole), larger)]), larger)[0]
    return store.inputs(torch.tensor([row]))[0]


def _drawn(image: Tensor) -> Image.Image:
    from PIL import Image

    from holdfast.audit.examples import as_bytes

    return Image.fromarray(as_bytes(image).permute(1, 2, 0).contiguous().cpu().numpy())


def _side(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10_000 else 96
