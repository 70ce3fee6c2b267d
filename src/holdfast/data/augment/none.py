"""No augmentation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor

from holdfast.data.augment.base import Augment, centre_crop, register


@register("none")
@dataclass(frozen=True, kw_only=True)
class CentreCrop(Augment):
    """The middle of each image, as in evaluation; nothing is drawn.

    Args:
        size: side of the result in pixels; training fills in the model's input size when left out.

    Requirements: stored images of at least that size.
    Relations: `random-crop` for small images, `random-resized-crop` for photographs.
    """

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """The centre crop."""
        return centre_crop(images, self.side(images))
