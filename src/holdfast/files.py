"""What lies at a path; writing that survives a crash: a file or folder is the old one or the new one, never half."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from holdfast.errors import HoldfastError


def kind_of(path: Path) -> Literal["file", "folder", "other"] | None:
    """What lies at a path, links followed; None where nothing does, or where nothing could be of that name."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # longer than any file's name, or no name at all
        return None
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def cache_folder() -> Path | None:
    """Where what can be made again is kept between runs: `HOLDFAST_CACHE`, or the user's own cache; None if empty."""
    chosen = os.environ.get("HOLDFAST_CACHE")
    if chosen is not None:
        return Path(chosen).expanduser().absolute() if chosen else None
    home = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(home) if home else Path.home() / ".cache") / "holdfast"
    except RuntimeError:  # a user without a home
        return None


def write_atomic(file: Path, content: bytes | str) -> None:
    """Write aside, sync, rename."""
    if not file.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    data = content.encode() if isinstance(content, str) else content
    aside = file.with_name(f".{file.name}.tmp")
    aside.unlink(missing_ok=True)  # a stranger's folder may hold a link of that name, and writing would follow it
    try:
        write_synced(aside, data)
        aside.replace(file)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def write_json(file: Path, value: Any) -> None:
    """A JSON file, written atomically; NaN is refused because JSON has none."""
    write_atomic(file, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_synced(file: Path, data: bytes) -> None:
    """Write a new file and force it to disk; one that is there, or a link, is never written through."""
    with file.open("xb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def inside(folder: Path, path: Path) -> Path:
    """The path, if it lies in the folder; a link that leads out of a stranger's folder is refused."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise HoldfastError(f"{path} is a link that leads out of {folder}; remove it, nothing is written through it")
    return path


def sync_folder(folder: Path) -> None:
    """Force a rename to disk; without effect where folders cannot be opened (Windows)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def recover_folder(folder: Path) -> None:
    """Put the older folder back where a crash struck between the two moves of `new_folder`."""
    old = _old(folder)
    if old.is_dir() and not old.is_symlink() and not folder.exists():
        old.replace(folder)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder filled aside and moved into place when the block ends well; an older one is replaced."""
    aside, old = folder.with_name(f".{folder.name}.tmp"), _old(folder)
    recover_folder(folder)
    for leftover in (aside, old):
        if leftover.is_symlink():
            leftover.unlink()
        shutil.rmtree(leftover, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        yield aside
        _sync_tree(aside)  # the new names must not reach the disk before what they name
        if folder.exists():
            folder.replace(old)
        aside.replace(folder)
        sync_folder(folder.parent)
    except BaseException:
        recover_folder(folder)
        shutil.rmtree(aside, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _sync_tree(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb+") as handle:
                os.fsync(handle.fileno())
