"""Decoded images of a table in one file on disk, mapped into memory: for sets that do not fit into it.

A set has a folder of its own under `images` in the cache folder, named by what is in it: the files, as far as their
names, sizes and times tell, and the canvas. `pixels` holds the images one after another; `index.jsonl` begins with a
line that says what it is of, has a line for each chunk that is safely on disk, and ends with a line that says that
nothing is missing. A fill that was killed goes on after its last line.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from holdfast import console
from holdfast.data.decoding import Chunk, chunks
from holdfast.data.ragged import RaggedImages
from holdfast.data.table import ImageTable
from holdfast.errors import DataError, reason
from holdfast.files import cache_folder, sync_folder
from holdfast.locks import InUse, locked
from holdfast.view import AtMost, View

FORMAT = 1
SYNCED = 2**26
"""Bytes of pixels between two lines of the index, about."""
WAIT = 0.5
"""Seconds between two looks at a set that another process fills."""


def disk_folder() -> Path:
    """Where sets lie; refused where the user wants no cache."""
    folder = cache_folder()
    if folder is None:
        raise DataError("cache: disk needs a folder; set HOLDFAST_CACHE to one, or choose cache: none")
    return folder / "images"


def free_bytes(folder: Path) -> int:
    """Room on the disk on which a folder lies or would lie."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(there).free


@dataclass
class DiskIndex:
    """What is known to be on disk.

    Args:
        shapes: height and width of each image.
        bad: why others are missing, by row.
        rows: of the table that were read, bad ones among them.
        complete: whether that is all of them.
    """

    shapes: list[list[int]] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)
    rows: int = 0
    complete: bool = False

    @property
    def bytes(self) -> int:
        """Of pixels."""
        return sum(3 * height * width for height, width in self.shapes)


class DiskImages:
    """The images of a table at a canvas, in files.

    Args:
        table: the images.
        view: its canvas.
        folder: holds the sets of all tables.
    """

    def __init__(self, table: ImageTable, view: View, folder: Path) -> None:
        self.table, self.view = table, view
        self.key = _key(table, view)
        self.folder = folder / self.key
        self.pixels, self.lines = self.folder / "pixels", self.folder / "index.jsonl"

    def open(self, expected: int, workers: int, skip_bad: bool) -> tuple[RaggedImages, dict[int, str]]:
        """All images, decoded first if they are not there, and why some are missing; several processes fill one set.

        Args:
            expected: bytes that they will take, about.
            workers: threads that decode.
            skip_bad: leave out images that cannot be read, instead of stopping at the first.
        """
        waited = False
        while True:
            index = self.read()
            if index.bad and not skip_bad:
                row = min(index.bad)
                self.table.source.image(int(self.table.positions[row]), self.view)  # says what is wrong with it
                shutil.rmtree(self.folder, ignore_errors=True)  # it can be read by now
            elif index.complete:
                return self._mapped(index), index.bad
            with _told(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with _told(self.folder), locked(self.folder / "lock", f"the image cache {self.folder}"):
                    self._fill(expected, workers, skip_bad)
            except InUse:
                if not waited:
                    console.say(f"another process decodes these images into {self.folder}; waiting for it")
                waited = True
                time.sleep(WAIT)

    def read(self) -> DiskIndex:
        """What is on disk; nothing where files are not what they should be."""
        index, digest = DiskIndex(), hashlib.blake2b(digest_size=16)
        try:
            content = self.lines.read_bytes()
            size = self.pixels.stat().st_size
        except OSError:
            return index
        for number, line in enumerate(content.splitlines(keepends=True)):
            if not line.endswith(b"\n"):
                break  # torn by a kill
            try:
                entry: dict[str, Any] = json.loads(line)
                if number == 0 and entry != self._header():
                    return DiskIndex()
                if "complete" in entry:
                    whole = entry == {"complete": size, "digest": digest.hexdigest()} and index.rows == len(self.table)
                    index.complete = whole and size == index.bytes
                    return index if index.complete else DiskIndex()
                if number:
                    index.shapes += entry["shapes"]
                    index.bad |= {int(row): str(why) for row, why in entry["bad"].items()}
                    index.rows = int(entry["rows"])
            except (ValueError, KeyError, TypeError, AttributeError):
                return DiskIndex()
            digest.update(line)
        return index if index.bytes <= size else DiskIndex()

    def _header(self) -> dict[str, Any]:
        at = f"{self.view.canvas} px, {self.view.fit}, {self.view.interpolation}{_at_most(self.view)}"
        return {"format": FORMAT, "key": self.key, "images": len(self.table), "at": at}

    def _fill(self, expected: int, workers: int, skip_bad: bool) -> None:
        """Decode what is missing; the lock is held."""
        index = self.read()
        if index.complete:
            return
        _refuse_little_room(self.folder, expected - index.bytes)
        if not index.rows:
            self.lines.write_bytes(_line(self._header()))
            self.pixels.write_bytes(b"")
        os.truncate(self.pixels, index.bytes)
        digest = hashlib.blake2b(digest_size=16)
        kept = [line for line in self.lines.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        digest.update(b"".join(kept))
        self.lines.write_bytes(b"".join(kept))
        with self.pixels.open("ab") as pixels, self.lines.open("ab") as lines:
            try:
                with console.bar(len(self.table), index.rows, unit="image", what="decoding to disk") as bar:
                    for entry in self._written(chunks(self.table, self.view, workers, index.rows), pixels, skip_bad):
                        line = _line(entry)
                        digest.update(line)
                        lines.write(line)
                        lines.flush()
                        bar.update(entry["rows"] - index.rows)
                        index.rows = entry["rows"]
                lines.write(_line({"complete": pixels.tell(), "digest": digest.hexdigest()}))
                lines.flush()
                os.fsync(lines.fileno())
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    shutil.rmtree(self.folder, ignore_errors=True)  # gives the room back
                raise
        sync_folder(self.folder)

    def _written(self, found: Iterable[Chunk], pixels: BinaryIO, skip_bad: bool) -> Iterator[dict[str, Any]]:
        """Lines of the index, each when its pixels are safely on disk."""
        entry: dict[str, Any] = {"rows": 0, "shapes": [], "bad": {}}
        written = 0
        for rows, images, bad in found:
            if bad and not skip_bad:
                raise bad[min(bad)]
            for image in images:
                written += pixels.write(np.ascontiguousarray(image).data)
            entry["rows"] = 1 + max([*rows.tolist(), *bad])
            entry["shapes"] += [list(image.shape[:2]) for image in images]
            entry["bad"] |= {str(row): error.reason for row, error in bad.items()}
            if written >= SYNCED or entry["rows"] == len(self.table):
                pixels.flush()
                os.fsync(pixels.fileno())
                yield entry
                entry, written = {"rows": 0, "shapes": [], "bad": {}}, 0

    def _mapped(self, index: DiskIndex) -> RaggedImages:
        size = index.bytes
        # Private: nobody writes, and a tensor must not be read-only.
        flat = torch.from_file(str(self.pixels), shared=False, size=size, dtype=torch.uint8) if size else torch.empty(0)
        return RaggedImages.shaped(flat.to(torch.uint8).view(-1, 3), np.array(index.shapes, np.int64).reshape(-1, 2))


def _key(table: ImageTable, view: View) -> str:
    """Names a set: the same files at the same canvas."""
    stored = f"{FORMAT} {view.canvas} {view.fit} {view.interpolation}{_at_most(view)}"
    digest = hashlib.blake2b(stored.encode(), digest_size=16)
    for name, position in zip(table.ids, table.positions.tolist(), strict=True):
        stamp = table.source.stamp(position)
        digest.update(f"{len(name)} {name} {len(stamp)} ".encode("utf-8", "surrogateescape") + stamp)
    return digest.hexdigest()


def _at_most(view: View) -> str:
    return " at most" if isinstance(view, AtMost) else ""


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _refuse_little_room(folder: Path, needed: int) -> None:
    if needed > free_bytes(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """What a disk says, in one line that tells what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "its disk has no room for these images" if full else reason(error)
        do = "set HOLDFAST_CACHE to another folder, or choose cache: none"
        raise DataError(f"cannot keep images in {folder.parent}: {what}; {do}") from error
