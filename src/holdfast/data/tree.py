"""Files under a root, be it a folder or zip archives: their names, their bytes and images out of them."""

from __future__ import annotations

import io
import os
import threading
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from holdfast.data.formats import is_image
from holdfast.data.sources import OpenedSource, file_stamp, open_plain
from holdfast.data.table import SkippedFiles, few
from holdfast.errors import DataError

LARGEST = 2**28
"""Bytes of a list, and of a file in an archive, unpacked; a small archive can hold gigabytes of nothing."""

MOST_VISITS = 20
"""Links may show a folder under several names; a few that lead to each other would make millions."""


SYSTEM_FILES = frozenset({"__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"})
"""What systems leave behind in folders of images, in small letters."""


class Tree(ABC):
    """Files by their path below the root, with forward slashes.

    `names` are without hidden files and folders, which are in `hidden`, each hidden folder as one entry; without
    `links` that lead out of the root; and without `unnamed`, whose names are no text: no table or page could show them.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.hidden: list[str] = []
        self.links: list[str] = []
        self.unnamed: list[str] = []

    def refuse_unnamed(self) -> None:
        """Refuse a tree with names that are no text."""
        if self.unnamed:
            raise DataError(f"the name of '{self.unnamed[0]}' is not in UTF-8; rename the file or folder")

    @abstractmethod
    def where(self, name: str) -> str:
        """What to call a file in a message."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """A file to read; `FileNotFoundError` where there is none. Safe to use from several threads."""

    @abstractmethod
    def stamp(self, name: str) -> bytes:
        """What changes when a file does, without reading it."""

    def content(self, name: str) -> bytes:
        """Content of a file that is read whole, such as a list."""
        try:
            with self.open(name) as file:
                content = file.read(LARGEST + 1)
            if len(content) > LARGEST:
                raise ValueError(f"it has more than {LARGEST / 1e6:,.0f} MB, more than any list takes")
            return content
        except Exception as error:  # no plain file, damaged, encrypted, packed in a way that Python does not know, ...
            raise DataError(f"cannot read '{self.where(name)}': {error}; look at it, or fetch it again") from error

    def text(self, name: str) -> str:
        """Content of a text file."""
        return self.content(name).decode("utf-8-sig", errors="replace")

    def images(self) -> list[str]:
        """Names of image files, by extension, in order."""
        return [name for name in self.names if is_image(name)]

    def skipped_files(self, used: Collection[str], within: str | None = None) -> SkippedFiles:
        """Files that are no part of a dataset.

        Args:
            used: the images that are.
            within: a published dataset brings other files, too; only images below this folder are missed then.
        """
        used = frozenset(used)
        unused = [name for name in self.names if name not in used and name.startswith(within or "")]
        return SkippedFiles(
            no_images=tuple(name for name in unused if not is_image(name)) if within is None else (),
            unplaced=tuple(name for name in unused if is_image(name)),
            links=tuple(self.links),
            unnamed=tuple(self.unnamed),
            hidden=tuple(self.hidden),
        )

    def listed(self, name: str, columns: str, head: int = 0) -> list[list[str]]:
        """The lines of a text file after its head, each in columns with these titles; only the last may hold blanks."""
        cells = len(columns.split())
        lines = self.text(name).splitlines()[head:]
        rows = [line.split(maxsplit=cells - 1) for line in lines if line.strip()]
        if any(len(row) != cells for row in rows):
            raise DataError(f"'{name}' does not list '{columns}' on each line; fetch it again")
        return rows

    def find(self, name: str) -> str | None:
        """The shortest path that ends in this name, for a dataset unpacked inside a folder of its own."""
        hits = [n for n in self.names if n == name or n.endswith("/" + name)]
        return min(hits, key=len, default=None)


class TreeSource(OpenedSource):
    """Image files of a tree.

    Args:
        tree: a folder, or archives.
        names: which files; one that is not there is found missing when it is read.
    """

    def __init__(self, tree: Tree, names: Sequence[str]) -> None:
        super().__init__()
        self.tree, self.names = tree, list(names)

    def __len__(self) -> int:
        return len(self.names)

    def where(self, index: int) -> str:
        """Its place on disk, or archive and member."""
        return self.tree.where(self.names[index])

    def open(self, index: int) -> BinaryIO:
        """The file or member."""
        return self.tree.open(self.names[index])

    def stamp(self, index: int) -> bytes:
        """What changes when the file or member does."""
        return self.tree.stamp(self.names[index])


class Folder(Tree):
    """Files of a folder; links are followed, but not back into a folder that is being listed.

    Args:
        root: the folder.
        follow_links: those that lead out of it, too.
    """

    def __init__(self, root: Path, follow_links: bool = False) -> None:
        super().__init__()
        self.root = root
        self._prefix = str(root / "_")[:-1]  # joining texts takes a tenth of the time of joining paths
        self._within = None if follow_links else os.path.realpath(root)
        self.names = sorted(self._walk())
        for left_out in (self.hidden, self.links, self.unnamed):
            left_out.sort()

    def where(self, name: str) -> str:
        """Its path."""
        return self._prefix + name

    def open(self, name: str) -> BinaryIO:
        """The plain file of this name."""
        return open_plain(self._prefix + name)

    def stamp(self, name: str) -> bytes:
        """Size and time of the file."""
        return file_stamp(self.root / name)

    def _walk(self) -> Iterator[str]:
        """Names of files; what is left out is noted."""
        waiting: list[tuple[Path, str, tuple[tuple[int, int], ...]]] = [(self.root, "", (_identity(self.root),))]
        visits: Counter[tuple[int, int]] = Counter()
        while waiting:
            folder, prefix, ancestors = waiting.pop()
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = prefix + entry.name
                    left_out = self._left_out(entry)
                    if left_out is not None:
                        left_out.append(name)
                        continue
                    if not entry.is_dir():
                        yield name
                        continue
                    own = _identity(entry.path)
                    if own in ancestors:
                        continue
                    visits[own] += 1
                    if visits[own] > MOST_VISITS:
                        told = f"links lead to '{entry.path}' again and again"
                        raise DataError(f"{told}; remove those that are not needed")
                    waiting.append((Path(entry.path), f"{name}/", (*ancestors, own)))

    def _left_out(self, entry: os.DirEntry[str]) -> list[str] | None:
        """The list that a file or folder belongs to which is left out, if it is."""
        if _hidden(entry.name):
            return self.hidden
        if not _is_text(entry.name):
            return self.unnamed
        if self._within is not None and entry.is_symlink():
            return None if Path(os.path.realpath(entry.path)).is_relative_to(self._within) else self.links
        return None


def _identity(folder: str | Path) -> tuple[int, int]:
    """The same for a folder by whatever name and link it is reached."""
    known = Path(folder).stat()
    return known.st_dev, known.st_ino


def _is_text(name: str) -> bool:
    """Whether a name can be written down; one that is not in UTF-8 could be read all the same."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class Archives(Tree):
    """Members of one or several zip files, taken together.

    Handles are opened when first needed, one per thread and process, so that threads never share a file position and
    a forked or pickled copy opens its own.
    """

    def __init__(self, archives: Sequence[Path]) -> None:
        super().__init__()
        self.archives = list(archives)
        self._archive_of: dict[str, int] = {}
        self._local = threading.local()
        for number, path in enumerate(self.archives):
            for member in _members(path):
                if any(_hidden(part) for part in PurePosixPath(member).parts):
                    self.hidden.append(member)
                    continue
                if not _is_text(member):
                    self.unnamed.append(member)
                    continue
                other = self._archive_of.setdefault(member, number)
                if other != number and is_image(member):
                    raise DataError(f"'{member}' is in '{self.archives[other]}' and in '{path}'; remove one of them")
        self.names = sorted(self._archive_of)

    def where(self, name: str) -> str:
        """Archive and member."""
        return f"{self.archives[self._archive_of.get(name, 0)]}/{name}"

    def open(self, name: str) -> BinaryIO:
        """A member, unpacked into memory unless that would fill it."""
        archive, info = self._member(name)
        if info is None:
            raise FileNotFoundError(name)
        if info.file_size > LARGEST:
            raise DataError(f"it would unpack to {info.file_size / 1e6:,.0f} MB, more than any image takes")
        return io.BytesIO(archive.read(info))

    def stamp(self, name: str) -> bytes:
        """The member's checksum."""
        _, info = self._member(name)
        return b"" if info is None else f"{info.file_size} {info.CRC}".encode()

    def _member(self, name: str) -> tuple[zipfile.ZipFile, zipfile.ZipInfo | None]:
        """This thread's archive and what it says of a member."""
        number = self._archive_of.get(name, 0)
        if getattr(self._local, "process", None) != os.getpid():
            self._local.process, self._local.handles = os.getpid(), {}
        handles: dict[int, zipfile.ZipFile] = self._local.handles
        if number not in handles:
            handles[number] = zipfile.ZipFile(self.archives[number])
        return handles[number], handles[number].NameToInfo.get(name)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())


def _members(path: Path) -> list[str]:
    """Names of the files in an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
    except Exception as error:  # a damaged directory of members fails in many ways, NotImplementedError among them
        raise DataError(f"cannot open the archive '{path}': {error}; fetch it again") from error
    for name, count in Counter(names).items():
        if leads_out(name):
            raise DataError(f"the archive '{path}' holds '{name}', which leads out of it; it is refused")
        if count > 1:
            raise DataError(f"the archive '{path}' holds '{name}' {count} times; pack it again with one of them")
    return names


def _hidden(name: str) -> bool:
    """Whether a file or folder of this name is never a person's own image."""
    return name.startswith(".") or name.lower() in SYSTEM_FILES


def open_tree(root: str, layout: str, archives: Sequence[str] = (), follow_links: bool = False) -> Tree:
    """The files under a folder or inside a zip file.

    Args:
        root: as the user wrote it.
        layout: what is expected there, for the error message.
        archives: patterns of zip files; those of the first that a folder holds any of stand for its content.
        follow_links: of a folder, those that lead out of it, too.
    """
    path = user_path(root)
    try:
        if path.is_dir():
            packed = next((found for pattern in archives if (found := sorted(path.glob(pattern)))), None)
            return Archives(packed) if packed else Folder(path, follow_links)
        if path.is_file() and zipfile.is_zipfile(path):
            return Archives([path])
    except OSError as error:
        raise DataError(f"cannot list '{root}': {error.strerror}; check its permissions") from error
    problem = "is neither a folder nor a zip file" if path.exists() else "does not exist"
    raise DataError(f"'{root}' {problem}; expected {layout}")


def user_path(path: str | Path) -> Path:
    """A path as a person writes it, `~` standing for the home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise DataError(f"'{path}' starts with a home folder that is not known; write the whole path") from None


def leads_out(name: str) -> bool:
    """Whether a path does not stay below its root."""
    return name.startswith("/") or ".." in PurePosixPath(name).parts


def refuse_missing(missing: Sequence[str], where: str) -> None:
    """One line that names the first few missing files."""
    if missing:
        said = f"{len(missing):,} of the files listed in '{where}' are missing ({few(missing, 3)})"
        raise DataError(f"{said}; add them, or leave such images out with --skip-bad")
