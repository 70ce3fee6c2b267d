"""Where the pixels of a table come from: arrays, files, members of zip archives."""

from __future__ import annotations

import io
import os
import stat
import threading
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.data.decode import decode, resized
from holdfast.errors import DataError
from holdfast.view import View

Pixels = NDArray[np.uint8]

LARGEST_MEMBER = 2**28
"""Bytes of a file in an archive, unpacked; a small archive can hold gigabytes of nothing."""


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
        return decode(lambda: _open_plain(self.paths[index]), self.where(index), view)


class ZipSource(ImageSource):
    """Members of one or several zip archives.

    Handles are opened when first needed, one per thread and process, so that threads never share a file position and
    a forked or pickled copy opens its own.

    Args:
        archives: the zip files.
        members: for each image, which archive and the member's name.
    """

    def __init__(self, archives: Sequence[Path], members: Sequence[tuple[int, str]]) -> None:
        self.archives = list(archives)
        self.members = list(members)
        self._local = threading.local()

    def __len__(self) -> int:
        return len(self.members)

    def where(self, index: int) -> str:
        """Archive and member."""
        archive, member = self.members[index]
        return f"{self.archives[archive]}/{member}"

    def image(self, index: int, view: View | None = None) -> Pixels:
        """RGB pixels of one member."""
        return decode(lambda: self._open(*self.members[index]), self.where(index), view)

    def _open(self, archive: int, member: str) -> BinaryIO:
        if getattr(self._local, "process", None) != os.getpid():
            self._local.process, self._local.handles = os.getpid(), {}
        handles: dict[int, zipfile.ZipFile] = self._local.handles
        if archive not in handles:
            handles[archive] = zipfile.ZipFile(self.archives[archive])
        try:
            return io.BytesIO(read_member(handles[archive], member))
        except KeyError:
            raise FileNotFoundError(member) from None

    def __getstate__(self) -> dict[str, Any]:
        return {"archives": self.archives, "members": self.members}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def read_member(archive: zipfile.ZipFile, member: str) -> bytes:
    """Content of a member; one that would fill the memory is not unpacked. `KeyError` where there is none."""
    info = archive.getinfo(member)
    if info.file_size > LARGEST_MEMBER:
        raise DataError(f"it would unpack to {info.file_size / 1e6:,.0f} MB, more than any image takes")
    return archive.read(info)


def read_plain(path: Path) -> bytes:
    """Content of a file that is to be read whole, such as a list; no pipe, device or disk image."""
    with _open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST_MEMBER:
            raise ValueError(f"it has {size / 1e6:,.0f} MB, more than any list takes")
        return file.read()


def _open_plain(path: Path) -> BinaryIO:
    """The file; a pipe or device of an image's name would be waited for without end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is no plain file")
    return path.open("rb")
