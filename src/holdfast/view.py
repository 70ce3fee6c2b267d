"""How a photograph of any shape becomes the square that a model takes."""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

Fit: TypeAlias = Literal["crop", "squash", "pad"]
"""`crop` keeps the shape and cuts the middle out, `pad` keeps it and adds black bars, `squash` distorts."""

Interpolation: TypeAlias = Literal["bilinear", "bicubic", "lanczos", "nearest"]


@dataclasses.dataclass(frozen=True)
class View:
    """Resize an image to a canvas, then cut out its middle: torchvision's `Resize` and `CenterCrop`.

    Args:
        size: side of the square that the model takes.
        canvas: with `crop` the shorter side of the resized image, with `squash` both, with `pad` the longer one, which
            black bars then make a square; `size` when left out.
        fit: what happens to an image that is no square.
        interpolation: of the resizing, antialiased.
    """

    size: int
    canvas: int = 0
    fit: Fit = "crop"
    interpolation: Interpolation = "bilinear"

    def __post_init__(self) -> None:
        if not self.canvas:
            object.__setattr__(self, "canvas", self.size)
        if not 1 <= self.size <= self.canvas:
            raise ValueError(f"the canvas ({self.canvas}) must not be smaller than the input ({self.size})")

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width to which an image is resized; bars and crops come after."""
        if self.fit == "squash":
            return self.canvas, self.canvas
        short, long = sorted((height, width))
        # Whole pixels as torchvision counts them: the other side is cut off, not rounded.
        if self.fit == "crop":
            other = self.canvas * long // short
            return (self.canvas, other) if height <= width else (other, self.canvas)
        other = max(1, self.canvas * short // long)
        return (other, self.canvas) if height <= width else (self.canvas, other)

    def __str__(self) -> str:
        """As pages and cards say it: `256 → 224 px, shape kept, centre crop, bilinear`."""
        fits = {"crop": "shape kept, centre crop", "squash": "squashed", "pad": "shape kept, black bars"}
        sizes = f"{self.size} px" if self.canvas == self.size else f"{self.canvas} → {self.size} px"
        return f"{sizes}, {fits[self.fit]}, {self.interpolation}"


class AtMost(View):
    """How photographs are stored that windows are cut from: those smaller than the canvas stay as they are."""

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width to which an image is resized, if it is."""
        return (height, width) if min(height, width) <= self.canvas else super().resized(height, width)
