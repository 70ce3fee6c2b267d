"""Writing pictures: small, each image once, and none at all where they are private."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import torch
from PIL import Image
from torch import Tensor

from holdfast.audit.examples import as_bytes
from holdfast.data import ImageStore

Picture: TypeAlias = dict[str, Any] | None
"""`{"file", "width", "height", "alt"}`, or None where no pictures are wanted."""

THUMBNAIL = 112
"""Longest side of a picture that is only looked at; larger ones are reduced to it and stored as JPEG."""
EXACT = 256
"""Longest side of a picture that is stored to the bit; a page of larger ones would be too heavy."""
TILE, COLUMNS = 48, 25
QUALITY = 85


class Pictures:
    """The folder of pictures.

    Args:
        folder: where they go; None writes nothing and gives None for every picture.
        size: input size of the model; what is shown is what the model sees.
    """

    def __init__(self, folder: Path | None, size: int) -> None:
        self.folder = folder
        self.size = size
        self._count = 0
        self._known: dict[tuple[int, int], dict[str, Any]] = {}

    def of(self, store: ImageStore, row: int, alt: str) -> Picture:
        """An image of a store, for looking at; asked for again it is the same file."""
        if self.folder is None:
            return None
        key = (id(store), row)
        if key not in self._known:
            image = _drawn(self.seen(store, torch.tensor([row]))[0])
            small = self.size <= THUMBNAIL
            self._known[key] = self._save(image if small else _reduced(image, THUMBNAIL), "png" if small else "jpg")
        return {**self._known[key], "alt": alt}

    def exact(self, image: Tensor, alt: str) -> Picture:
        """An image in [0, 1] as 8 bits hold it, without loss."""
        if self.folder is None:
            return None
        drawn = _drawn(image)
        return {**self._save(drawn if self.size <= EXACT else _reduced(drawn, EXACT), "png"), "alt": alt}

    def sprite(self, store: ImageStore, rows: Tensor) -> dict[str, Any] | None:
        """Many images as the tiles of one JPEG, row by row."""
        if self.folder is None:
            return None
        sheet = Image.new("RGB", (TILE * min(COLUMNS, len(rows)), TILE * -(-len(rows) // COLUMNS)))
        for place, image in enumerate(self.seen(store, rows)):
            corner = (TILE * (place % COLUMNS), TILE * (place // COLUMNS))
            sheet.paste(_drawn(image).resize((TILE, TILE), Image.Resampling.BICUBIC), corner)
        sheet.save(self.folder / "map.jpg", quality=QUALITY)
        return {"file": "pictures/map.jpg", "tile": TILE, "columns": COLUMNS}

    def seen(self, store: ImageStore, rows: Tensor) -> Tensor:
        """Images as the model sees them."""
        return store.inputs(rows.cpu())

    def _save(self, image: Image.Image, kind: str) -> dict[str, Any]:
        assert self.folder is not None
        self._count += 1
        name = f"{self._count:04d}.{kind}"
        options = {"optimize": True} if kind == "png" else {"quality": QUALITY}
        image.save(self.folder / name, **options)
        return {"file": f"pictures/{name}", "width": image.width, "height": image.height}


def _drawn(image: Tensor) -> Image.Image:
    return Image.fromarray(as_bytes(image).permute(1, 2, 0).contiguous().cpu().numpy())


def _reduced(image: Image.Image, side: int) -> Image.Image:
    return image.resize((side, side), Image.Resampling.LANCZOS)
