"""Handwritten digits: scikit-learn's scans, and MNIST in its idx files."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from holdfast.data.readers.base import Reader, register
from holdfast.data.sources import ArraySource, resized
from holdfast.data.table import ImageTable
from holdfast.data.tree import user_path
from holdfast.errors import DataError, RecipeError
from holdfast.files import kind_of
from holdfast.view import View

LARGEST = 2**28
"""Bytes of a file, unpacked: five times MNIST's own; a small one can hold gigabytes of nothing."""


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
        images = np.stack([resized(Image.fromarray(image), View(self.size)) for image in grey])
        return digit_table(images, bunch.target, np.where(bunch.target <= 5, "train", "test"), name="digits")


def digit_table(images: NDArray[np.uint8], digits: NDArray[Any], splits: ArrayLike, name: str) -> ImageTable:
    """A table of digit images with the coarse labels odd and even."""
    classes, ids = [str(d) for d in digits], [str(i) for i in range(len(digits))]
    coarse = ["odd" if d % 2 else "even" for d in digits]
    return ImageTable.of(ArraySource(images), classes=classes, splits=splits, ids=ids, name=name, coarse=coarse)


@register("mnist")
@dataclass(frozen=True, kw_only=True)
class Mnist(Reader):
    """Handwritten digits of 28×28 pixels with the coarse labels odd and even.

    No classes are held out for validation unless asked: six training classes are too few to give any away.

    Args:
        root: folder with the four idx files under their official names, gzipped or not.
        protocol: "digits" trains on the digits 0-5 of the training file and tests on 6-9 of the test file; "seen"
            trains on the same and tests on 0-5 of the test file; "official" uses all digits of both files. In the
            latter two, training and testing share classes.

    Relations: `digits` needs no download; `omniglot` has coarse and fine labels with 1,623 classes.
    Reference: LeCun et al., 1998; the split by digit: Levi et al., ICCV 2021 (easy positive sampling).
    """

    validation: float = 0.0
    root: str
    protocol: Literal["digits", "seen", "official"] = "digits"

    def read(self) -> ImageTable:
        """The images of the protocol."""
        root = user_path(self.root)
        images, labels, splits = [], [], []
        for split, prefix in (("train", "train"), ("test", "t10k")):
            pixels, digits = _idx(root, f"{prefix}-images-idx3-ubyte", 3), _idx(root, f"{prefix}-labels-idx1-ubyte", 1)
            if len(pixels) != len(digits):
                raise DataError(f"'{root}': {len(pixels)} {prefix} images but {len(digits)} labels; fetch MNIST again")
            if (digits > 9).any() or 0 in pixels.shape:
                raise DataError(f"'{root}': a {prefix} file has no images, or labels other than 0-9; fetch MNIST again")
            if self.protocol != "official":
                learnt = split == "train" or self.protocol == "seen"
                pixels, digits = pixels[(digits <= 5) == learnt], digits[(digits <= 5) == learnt]
            images.append(pixels)
            labels.append(digits)
            splits += [split] * len(digits)
        if images[0].shape[1:] != images[1].shape[1:]:
            raise DataError(f"'{root}': the images for training and testing differ in size; fetch MNIST again")
        return digit_table(np.concatenate(images), np.concatenate(labels), splits, name="mnist")


def _idx(root: Path, name: str, axes: int) -> NDArray[np.uint8]:
    """The array of one idx file: two zero bytes, type 8, the number of axes, each length, then the values."""
    path = next((p for p in (root / f"{name}.gz", root / name) if kind_of(p) == "file"), None)
    if path is None:
        raise DataError(f"there is no '{name}.gz' in '{root}'; expected MNIST's four idx files under their own names")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(LARGEST)
            if file.read(1):
                raise ValueError(f"more than {LARGEST / 1e6:,.0f} MB")
        shape = np.frombuffer(content, ">u4", count=axes, offset=4)
        if content[:4] != bytes((0, 0, 8, axes)):
            raise ValueError("wrong header")
        return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"'{path}' is not an idx file of MNIST ({error}); fetch it again") from error
