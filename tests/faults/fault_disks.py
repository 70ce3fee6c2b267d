"""Full disks and folders that turn read-only, on a small file system of our own where one may be mounted.

Where it may not, a limit on the size of files stands in for the full disk: the system refuses every write beyond it,
whichever library writes.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from fault_children import command, finished, writes
from fault_outcomes import Outcome
from fault_runs import different, ending, kept, lost, small, training

ENOUGH = 64 * 2**20


class Disk:
    """A file system of limited size in memory.

    Args:
        folder: where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def change(self, *options: str) -> None:
        """Mount it again with other options."""
        _mount("-o", ",".join(["remount", *options]), "holdfast-faults", str(self.folder))


@contextmanager
def disk(folder: Path, size: int = ENOUGH) -> Iterator[Disk]:
    """Mount a disk for a while; PermissionError where that is not allowed."""
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "holdfast-faults", str(folder))
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def may_mount(folder: Path) -> bool:
    """Whether a disk can be mounted here."""
    try:
        with disk(folder / "trial"):
            return True
    except (PermissionError, FileNotFoundError):
        return False


def full_disk(folder: Path, draw: random.Random, count: int) -> list[Outcome]:
    """A disk that is full after a random number of bytes; later it has room, and the same command goes on."""
    recipe = small()
    finished(training(recipe, folder / "whole"), folder / "whole")
    whole = folder / "whole" / "run"
    sizes = sorted(file.stat().st_size for file in whole.rglob("*") if file.is_file())
    strike = _strike_disk if may_mount(folder) else _strike_limit
    outcomes = []
    while len(outcomes) < count:
        place = folder / f"cut-{len(outcomes)}"
        outcome = strike(recipe, place, draw, sizes, ending(whole))
        if outcome is not None:
            outcomes.append(outcome)
    return outcomes


def _strike_disk(
    recipe: dict[str, object], place: Path, draw: random.Random, sizes: list[int], whole: dict[str, str]
) -> Outcome | None:
    room = draw.randint(2**14, int(sum(sizes) * 0.9))
    with disk(place, room) as small_disk:
        beside = place.with_name(f"{place.name}-words")
        words = training(recipe, beside)
        words[words.index("--out") + 1] = str(place / "run")
        first = command(words, beside)
        kept(place / "run")  # what is there can be read
        small_disk.change(f"size={ENOUGH}")
        finished(words, beside)
        wrong = different(whole, ending(place / "run"))
    told = first.one_line and "No space left" in first.said
    note = ", ".join(wrong[:3]) or first.said[-200:]
    return Outcome("full disk", "train on a tmpfs", told and not wrong, bool(wrong), note)


def _strike_limit(
    recipe: dict[str, object], place: Path, draw: random.Random, sizes: list[int], whole: dict[str, str]
) -> Outcome | None:
    limit = draw.randint(sizes[0] // 2, sizes[-1])
    words = training(recipe, place)
    first = command(words, place, partial(limit_files, limit))
    if first.code == 0:
        shutil.rmtree(place)
        return None
    kept(place / "run")  # what is there can be read
    finished(words, place)
    wrong = different(whole, ending(place / "run"))
    told = first.one_line and "File too large" in first.said
    note = ", ".join(wrong[:3]) or first.said[-200:]
    return Outcome("full disk", "train under RLIMIT_FSIZE", told and not wrong, bool(wrong), note)


def limit_files(size: int) -> None:
    """In a child: no file may grow beyond so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def read_only(folder: Path, draw: random.Random, count: int) -> list[Outcome]:
    """A folder that turns read-only at a random step; later it can be written to, and the same command goes on.

    In the middle of a run the refusals are ours (the system makes no disk read-only while a file on it is open);
    before the next start the disk really is, where one may be mounted.
    """
    recipe = small()
    words = training(recipe, folder / "whole")
    finished(words, folder / "whole")
    whole = ending(folder / "whole" / "run")
    with ExitStack() as stack:
        real = stack.enter_context(disk(folder / "disk")) if may_mount(folder) else None
        run = folder / "disk" / "run"
        words[words.index("--out") + 1] = str(run)
        return [_read_only_once(words, folder, run, real, draw.randint(0, 9), whole) for _ in range(count)]


def _read_only_once(
    words: list[str], folder: Path, run: Path, real: Disk | None, step: int, whole: dict[str, str]
) -> Outcome:
    shutil.rmtree(run, ignore_errors=True)
    refused = [command(words, folder, partial(refuse_writes, str(run), step))]
    before = kept(run)
    if real is not None:
        real.change("ro")
        refused.append(command(words, folder))
        real.change("rw")
    gone = lost(before, kept(run))
    finished(words, folder)
    wrong = different(whole, ending(run))
    if real is not None:
        real.change("ro")
        finished(words, folder)  # a finished run can be looked at where nothing can be written
        real.change("rw")
    told = all(end.one_line and "Read-only file system" in end.said for end in refused)
    note = ", ".join(wrong[:3]) or refused[0].said[-200:]
    return Outcome("read-only folder", "train", told and not wrong, bool(wrong) or gone, note)


def refuse_writes(place: str, step: int) -> None:
    """In a child: from a step on, nothing under a folder can be written, made or moved."""
    from holdfast.training import captured

    calls, real, active = iter(range(10**6)), captured.one_step, False

    def turning(*arguments: object) -> object:
        nonlocal active
        active = active or next(calls) == step
        return real(*arguments)  # type: ignore[arg-type]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if active and writes(event, arguments) and str(arguments[0]).startswith(place):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(arguments[0]))

    captured.one_step = turning  # type: ignore[assignment]
    sys.addaudithook(hook)


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise PermissionError(done.stderr.strip())
