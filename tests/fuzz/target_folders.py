"""Folders and zip files: odd names, links, pipes, bombs, escapes; every file is in the table or accounted for."""

from __future__ import annotations

import itertools
import os
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

from fuzzing import Target, Wrong
from mutations import damaged_bytes
from sample_images import photo

from holdfast.config import instantiate
from holdfast.data import Reader
from holdfast.data.sources import BadImage
from holdfast.view import View

NAMES = (
    "a.jpg", "b.PNG", "c.jpeg", "notes.txt", "d.gif", " lead.jpg", "trail .jpg", "new\nline.jpg", "\x1b[31mred.jpg",
    "日本.jpg", "e\u0301.jpg", "'; rm -rf.jpg", "<b>.jpg", "-rf.jpg", "%s.jpg", "x" * 200 + ".jpg", ".hidden.jpg",
    "no-extension", "two.jpg.txt",
)  # fmt: skip
FOLDERS = (
    "cat",
    "dog",
    "train",
    "test",
    "val",
    "query",
    "gallery",
    "a.jpg",
    " ",
    "<i>",
    "new\nline",
    ".git",
    "日本",
    "x" * 100,
)
MANY = 5000
"""Files from which links are taken to multiply them; these are not counted."""


def _grow(folder: Path, draw: random.Random, depth: int) -> None:
    """Files, folders and links, some of them a trap."""
    for name in draw.sample(NAMES, draw.randint(0, 5)):
        (folder / name).write_bytes(draw.choice((photo(draw), b"", b"no image")))
    for name in draw.sample(FOLDERS, draw.randint(0, 4) if depth else 0):
        if not (folder / name).exists():
            (folder / name).mkdir()
            _grow(folder / name, draw, depth - 1)
    if draw.random() < 0.3:
        target = draw.choice((".", "..", "../..", "link", "nowhere", "a.jpg", "/dev/null", "cat", "../dog"))
        place = folder / draw.choice(("link", "link.jpg"))
        if not os.path.lexists(place):
            place.symlink_to(target)
    if draw.random() < 0.02:
        (folder / "\udcff.jpg").write_bytes(photo(draw))
    if draw.random() < 0.1 and not (folder / "pipe.jpg").exists():
        os.mkfifo(folder / "pipe.jpg")


def _folder(draw: random.Random, folder: Path) -> None:
    folder = folder / "a" / "b" / "c"  # links upwards must not lead out of what this input made
    folder.mkdir(parents=True)
    _grow(folder, draw, 2)
    if draw.random() < 0.05:
        deep = folder / "deep"
        for _ in range(draw.choice((5, 60, 400))):
            deep = deep / "d"
        deep.mkdir(parents=True)
        (deep / "a.jpg").write_bytes(photo(draw))
    if draw.random() < 0.2:
        (folder / draw.choice(("Thumbs.db", ".DS_Store", "desktop.ini"))).write_bytes(b"x")
    few = list(itertools.islice(_files(folder, (os.path.realpath(folder),)), MANY))
    _check(folder, draw, len(few) if len(few) < MANY else None)


def _files(folder: Path, ancestors: tuple[str, ...]) -> Iterator[Path]:
    """Files that are not hidden, links followed but not in circles, nor out of the first of the folders."""
    for path in folder.iterdir():
        real = os.path.realpath(path)
        if path.is_symlink() and not Path(real).is_relative_to(ancestors[0]):
            continue
        if path.name.startswith(".") or path.name in ("Thumbs.db", "desktop.ini"):
            continue
        if not path.is_dir():
            yield path
        elif real not in ancestors:
            yield from _files(path, (*ancestors, real))


def _check(root: Path, draw: random.Random, files: int | None) -> None:
    """Read it labelled and not; rows and files skipped must add up, and every row is an image or says why not."""
    for name in ("folder", "images"):
        reader: Reader = instantiate(Reader, {"name": name, "root": str(root), "validation": 0})
        table = reader.table()
        others = table.skipped_files
        if files is not None and len(table) + len(others.no_images) + len(others.unplaced) != files:
            raise Wrong(f"{files} files; {name} reads {len(table)} and passes over {others}")
        for row in draw.sample(range(len(table)), min(4, len(table))):
            try:
                pixels = table.source.image(int(table.positions[row]), View(8))
            except BadImage as error:
                if "\n" in str(error):
                    raise Wrong(f"more than one line: {error}") from error
            else:
                if min(pixels.shape[:2]) != 8 or pixels.shape[2:] != (3,):
                    raise Wrong(f"pixels of shape {pixels.shape}")


MEMBERS = (
    "../../../outside.jpg", "/etc/passwd.jpg", "cat/../../x.jpg", "C:\\x\\y.jpg", "cat\\a.jpg", "cat//a.jpg",
    "cat/./a.jpg", "__MACOSX/cat/._a.jpg", ".hidden/a.jpg", "train/cat/a.jpg", "test/dog/b.jpg",
    "日本/a.jpg", "cat/new\nline.jpg", "dir/", "cat/nested.zip", "\udcff/a.jpg",
)  # fmt: skip


def _zip(draw: random.Random, folder: Path) -> None:
    file = folder / "photos.zip"
    ordinary = [f"{name}/{i}.jpg" for name in ("cat", "dog") for i in range(draw.randint(0, 3))]
    members = ordinary + (draw.sample(MEMBERS, draw.randint(0, 3)) if draw.random() < 0.7 else [])
    with zipfile.ZipFile(
        file, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    ) as archive:
        for name in members:
            archive.writestr(name.encode("utf-8", "replace").decode(), photo(draw) if not name.endswith("/") else b"")
        if draw.random() < 0.1 and ordinary:
            archive.writestr(ordinary[0], photo(draw))
        if draw.random() < 0.03:
            archive.writestr("dog/bomb.png", b"\0" * 20_000_000, zipfile.ZIP_DEFLATED)
    content = bytearray(file.read_bytes())
    if draw.random() < 0.2:  # the sign of an encrypted member, and sizes that lie
        for sign, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            at = content.find(sign)
            if at >= 0:
                content[at + offset] |= 1
    if draw.random() < 0.2:
        at = content.find(b"PK\x01\x02")
        if at >= 0:
            content[at + 24 : at + 28] = draw.choice((b"\xff\xff\xff\x7f", b"\x00\x00\x00\x00", b"\xfe\xff\xff\xff"))
    hurt = draw.random() < 0.4
    file.write_bytes(damaged_bytes(bytes(content), draw) if hurt else bytes(content))
    _check(file, draw, _members(file))


def _members(file: Path) -> int:
    """Members that are neither folders nor hidden, counted the plain way; -1 where it cannot be opened."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
    except Exception:
        return -1
    hidden = [
        n for n in names if any(part.startswith(".") or part == "__MACOSX" for part in n.split("/") if part != ".")
    ]
    return len(names) - len(hidden)


TARGETS = (Target("folder", _folder, 8), Target("zip", _zip, 25))
