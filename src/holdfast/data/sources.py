"""Where the pixels of a table come from: arrays, files, trees of files."""

from __future__ import annotations

import stat
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.data.decode import decode, resized
from holdfast.view import View

if TYPE_CHECKING:
    from holdfast.data.tree import Tree

Pixels = NDArray[np.uint8]


class ImageSource(ABC):
    """A sequence of images that are decoded when asked for; safe to use from several threads."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def where(self, index: int) -> str:
        """What to call an image in a message."""

    @abstractmethod
    def image(self, index: int, view: View | None = None) -> Pixels:
        """RGB pixels of shape (height, width, 3), resized for a view when given; `BadImage` if unreadable."""

    def images(self, indices: Sequence[int] | NDArray[np.int64], view: View) -> list[Pixels]:
        """Several images, each of its own shape."""
        return [self.image(int(i), view) for i in indices]


class ArraySource(ImageSource):
    """Images held in one array.

    Args:
        array: uint8, n × height × width (grey) or n × height × width × 3.
    """

    def __init__(self, array: Pixels) -> None:
        if array.dtype != np.uint8 or not (array.ndim == 3 or (array.ndim == 4 and array.shape[3] == 3)):
            raise ValueError(f"images must be uint8, n×H×W or n×H×W×3; got {array.dtype} {array.shape}")
        self.array = array
        self._grey = array.ndim == 3

    def __len__(self) -> int:
        return len(self.array)

    def where(self, index: int) -> str:
        """Its number."""
        return f"image {index}"

    def image(self, index: int, view: View | None = None) -> Pixels:
        """RGB pixels of one image."""
        return resized(Image.fromarray(self._rgb(self.array[index])), view)

    def images(self, indices: Sequence[int] | NDArray[np.int64], view: View) -> list[Pixels]:
        """Several images in one look-up where no resizing is needed."""
        if self.array.shape[1:3] != (view.canvas, view.canvas):
            return super().images(indices, view)
        return list(self._rgb(self.array[np.asarray(indices, np.int64)]))

    def _rgb(self, array: Pixels) -> Pixels:
        return np.repeat(array[..., None], 3, axis=-1) if self._grey else array


class FileSource(ImageSource):
    """Image files on disk."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def where(self, index: int) -> str:
        """Its path."""
        return str(self.paths[index])

    def image(self, index: int, view: View | None = None) -> Pixels:
        """RGB pixels of one file."""
        return decode(lambda: open_plain(self.paths[index]), self.where(index), view)


class TreeSource(ImageSource):
    """Image files of a tree.

    Args:
        tree: a folder, or archives.
        names: which files; one that is not there is found missing when it is read.
    """

    def __init__(self, tree: Tree, names: Sequence[str]) -> None:
        self.tree, self.names = tree, list(names)

    def __len__(self) -> int:
        return len(self.names)

    def where(self, index: int) -> str:
        """Its place on disk, or archive and member."""
        return self.tree.where(self.names[index])

    def image(self, index: int, view: View | None = None) -> Pixels:
        """RGB pixels of one file."""
        return decode(lambda: self.tree.open(self.names[index]), self.where(index), view)


def open_plain(path: Path) -> BinaryIO:
    """The file; a pipe or device of an image's name would be waited for without end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is no plain file")
    return path.open("rb")
