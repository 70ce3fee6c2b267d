"""A campaign in one file that can be carried to another machine: records first, then what is needed to go on."""

from __future__ import annotations

import dataclasses
import shutil
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from holdfast import console
from holdfast.errors import HoldfastError, plural, reason
from holdfast.training.folder import TrainingFolder
from holdfast_studies.jobs import Cell, Job, Training
from holdfast_studies.store import Store

MIB = 1 << 20
FRAME = 1536
"""Bytes that an archive needs for a file beside its content."""

SMALL = ("recipe.yaml", "metrics.jsonl", "evaluation.json")
"""What every run is bundled with, as far as it has it."""

Progress: TypeAlias = tuple[bool | int, ...]
"""Whether a run is finished; then whether its model is there, before that the step of its newest checkpoint and the
same of the run that it starts from."""

NOTHING: Progress = (False, -1, False, -1)
"""Of a run of which there is nothing to go on with."""


@dataclasses.dataclass(frozen=True)
class _Part:
    """What is bundled as a whole or not at all.

    Args:
        name: for people.
        files: of it.
        always: whatever the limit; what is not there is run again.
    """

    name: str
    files: list[Path]
    always: bool = False

    @property
    def size(self) -> int:
        """Bytes that it takes at most."""
        return sum(file.stat().st_size + FRAME for file in self.files)


def write_bundle(file: Path, store: Store, cells: Sequence[Cell], limit: int | None = None) -> None:
    """Pack all records, and of audits and runs what fits beside them: those that must go on before finished ones.

    What does not fit is named, the smallest of its kind going first. `tar xf FILE -C OUT` unpacks it.

    Args:
        file: to write; the one before is replaced.
        store: what there is.
        cells: what is wanted of it, which decides what is still needed.
        limit: of the file, in MiB.
    """
    room = float("inf") if limit is None else limit * MIB
    taken: list[_Part] = []
    for part in _parts(store, cells):
        if part.size <= room or part.always:
            taken.append(part)
            room -= part.size
        else:
            console.say(f"{part.name} ({part.size / MIB:.0f} MiB) does not fit into {file}; raise --bundle-limit")
    aside = file.with_name(f".{file.name}.tmp")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(aside, "w:gz", compresslevel=1) as archive:
            for one in (one for part in taken for one in part.files):
                archive.add(one, arcname=f"{store.folder.name}/{one.relative_to(store.folder).as_posix()}")
        aside.replace(file)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    console.say(f"bundled in {file}: {plural(len(taken), 'part')}, {file.stat().st_size / MIB:.1f} MiB")


def _parts(store: Store, cells: Sequence[Cell]) -> list[_Part]:
    """Everything that could be carried, most needed first."""
    needed = {store.run(job, seed) for job, seed in _needed(store, cells)}
    records = _Part("records", [*sorted(store.records.glob("*.json")), *_there([store.machine])], always=True)
    audits = [_Part(f"the audit {folder.name}", _inside(folder)) for folder in _folders(store.audits)]
    open_runs: list[_Part] = []
    needed_runs: list[_Part] = []
    others: list[_Part] = []
    for folder in _folders(store.runs):
        run = TrainingFolder(folder)
        if run.finished() is not None:
            kind = needed_runs if folder in needed else others
            kind.append(_Part(f"the model of {folder.name}", _to_go_on(run)))
        elif _progress(folder) > NOTHING:
            open_runs.append(_Part(f"the checkpoint of {folder.name}", _to_go_on(run)))
    smallest = [sorted(parts, key=lambda part: part.size) for parts in (audits, open_runs, needed_runs, others)]
    return [part for part in (records, *(part for parts in smallest for part in parts)) if part.files]


def _to_go_on(run: TrainingFolder) -> list[Path]:
    """What a run is carried as: its model once it is finished, before that its newest checkpoint and its start."""
    files = [*_there(run.folder / name for name in SMALL), *_inside(run.model)]
    if run.finished() is not None:
        return files
    start = _to_go_on(TrainingFolder(run.first)) if run.first.is_dir() else []
    newest = [file for checkpoint in _checkpoints(run)[-1:] for file in _inside(checkpoint)]
    return [*files, *newest, *_inside(run.good), *start]


def _needed(store: Store, cells: Sequence[Cell]) -> Iterable[tuple[Training, int]]:
    """Trainings whose models something is still to be done with."""
    for cell in cells:
        if isinstance(cell.job, Training) and not store.done(cell):
            yield cell.job, cell.seed
            if cell.job.start is not None:
                yield cell.job.start, cell.seed


def take_bundle(file: Path, store: Store, jobs: Iterable[Job] = ()) -> None:
    """Go on from a bundle: take over its records, and the runs that are further there than here.

    Args:
        file: the bundle.
        store: to go on with.
        jobs: as for `Store.merge`.
    """
    aside = store.folder / ".bundle"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        names = _unpack(file, store, aside)
        records = store.merge(aside, jobs).new if (aside / "cells").is_dir() else 0
        runs = sum(_replace(theirs, store.runs / theirs.name) for theirs in _folders(aside / "runs"))
        for theirs in (*_folders(aside / "audits"), *_there([aside / store.machine.name])):
            ours = store.folder / theirs.relative_to(aside)
            if not ours.exists():
                ours.parent.mkdir(parents=True, exist_ok=True)
                theirs.replace(ours)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    if names:
        console.say(f"taken from {file}: {plural(records, 'record')}, {plural(runs, 'run')}")


def _unpack(file: Path, store: Store, aside: Path) -> list[str]:
    """Write the files of a bundle into a folder; it may come from a stranger, so nothing else than such files."""
    found = []
    try:
        with tarfile.open(file, "r:*") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                inner = path.parts[1:]
                kind = inner[0] if len(inner) > 1 else ""
                sound = member.isfile() and path.parts[0] == store.folder.name and ".." not in path.parts
                if not sound or (kind not in ("cells", "runs", "audits") and inner != (store.machine.name,)):
                    raise HoldfastError(
                        f"{file} holds '{member.name}', which is no part of {store.folder.name} studies"
                    )
                target = aside.joinpath(*inner)
                target.parent.mkdir(parents=True, exist_ok=True)
                content = archive.extractfile(member)
                assert content is not None  # a file has content
                with content, target.open("xb") as handle:
                    shutil.copyfileobj(content, handle, MIB)
                found.append(member.name)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise HoldfastError(
            f"{file} is no whole bundle ({reason(error)}); make it again, or leave --bundle out"
        ) from error
    return found


def _replace(theirs: Path, ours: Path) -> bool:
    """Take over a run that is further than ours; whether it was."""
    if ours.exists() and _progress(theirs) <= _progress(ours):
        return False
    shutil.rmtree(ours, ignore_errors=True)
    ours.parent.mkdir(parents=True, exist_ok=True)
    theirs.replace(ours)
    return True


def _progress(folder: Path) -> Progress:
    run = TrainingFolder(folder)
    if run.finished() is not None:
        return True, int(run.model.is_dir())
    newest = max((int(one.name) for one in _checkpoints(run)), default=-1)
    return False, newest, *(_progress(run.first) if run.first.is_dir() else ())


def _checkpoints(run: TrainingFolder) -> list[Path]:
    return [one for one in _folders(run.checkpoints) if one.name.isdigit()]


def _folders(folder: Path) -> list[Path]:
    """The folders in one, sorted; those being written or replaced begin with a dot."""
    there = sorted(folder.iterdir()) if folder.is_dir() else []
    return [one for one in there if one.is_dir() and not one.is_symlink() and not one.name.startswith(".")]


def _inside(folder: Path) -> list[Path]:
    """All files of a folder, without links and without what processes leave behind."""
    there = sorted(folder.rglob("*")) if folder.is_dir() else []
    return [one for one in there if one.is_file() and not one.is_symlink() and not one.name.startswith(".")]


def _there(files: Iterable[Path]) -> list[Path]:
    return [file for file in files if file.is_file() and not file.is_symlink()]
