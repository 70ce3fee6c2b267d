"""Scikit-learn's scanned digits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from holdfast.data.decode import resized
from holdfast.data.readers.base import Reader, register
from holdfast.data.sources import ArraySource
from holdfast.data.table import ImageTable
from holdfast.errors import DataError, RecipeError
from holdfast.view import View


@register("digits")
@dataclass(frozen=True, kw_only=True)
class Digits(Reader):
    """1,797 handwritten digits of 8×8 pixels, enlarged; train on 0-5, test on 6-9; coarse labels odd and even.

    No classes are held out for validation unless asked: six training classes are too few to give any away.

    Args:
        size: side of the images in pixels.

    Requirements: scikit-learn.
    Relations: `mnist` is the same task with more and sharper images; `glyphs` has hundreds of classes.
    """

    validation: float = 0.0
    size: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 8:
            raise RecipeError(f"digits: 'size' must be at least 8, got {self.size}")

    def read(self) -> ImageTable:
        """All digits."""
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise DataError("the dataset 'digits' comes with scikit-learn; install scikit-learn") from error
        bunch = load_digits()
        grey = (bunch.images * (255 / 16)).round().astype(np.uint8)
        return digit_table(
            ArraySource(np.stack([resized(Image.fromarray(image), View(self.size)) for image in grey])),
            bunch.target.astype(np.int64),
            np.where(bunch.target <= 5, "train", "test"),
            name="digits",
        )


def digit_table(
    source: ArraySource, digits: np.typing.NDArray[np.int64], splits: np.typing.NDArray[np.str_], name: str
) -> ImageTable:
    """A table of digit images with the coarse labels odd and even."""
    return ImageTable.of(
        source,
        classes=[str(d) for d in digits],
        splits=splits,
        ids=[str(i) for i in range(len(digits))],
        name=name,
        coarse=["odd" if d % 2 else "even" for d in digits],
    )
