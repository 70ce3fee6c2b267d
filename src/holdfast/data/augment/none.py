"""No augmentation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor

from holdfast.data.augment.base import Augment, Draws, centre_crop, register
from holdfast.data.ragged import RaggedImages
from holdfast.view import View


@register("none")
@dataclass(frozen=True, kw_only=True)
class CentreCrop(Augment):
    """The middle of each image, as in evaluation; nothing is drawn.

    Args:
        size: side of the result in pixels; training fills in the model's input size when left out.

    Requirements: stored images of at least that size.
    Relations: `random-crop` for small images, `random-resized-crop` for photographs.
    """

    def draw(self, count: int, generator: Generator) -> Draws:
        """Nothing."""
        return ()

    def view(self, images: RaggedImages, draws: Draws) -> Tensor:
        """The centre crop."""
        return centre_crop(images, View(self.side))
