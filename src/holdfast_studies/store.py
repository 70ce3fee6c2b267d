"""Records of finished cells: one JSON file each, written whole or not at all."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.files import write_json
from holdfast.run_files import finite
from holdfast.training.folder import TrainingFolder
from holdfast_studies.jobs import Arm, Cell, Job, Measure, Training, flat, measure_key, taken
from holdfast_studies.recorded import changed_keys, later, later_for, names, recipe_of
from holdfast_studies.results import Outcome, Results

SCHEMA = 1


class Store:
    """A folder of records, and beside them the runs they came from, audits under way and what machines can do.

    Cells are filed by what they do, not by the study that asked: a training that two studies share is one record, and
    a measure that a later study adds is put into it. Folders of several machines merge by copying records.

    Args:
        folder: made when something is written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.records = self.folder / "cells"
        self.runs = self.folder / "runs"
        self.audits = self.folder / "audits"
        self.machine = self.folder / "machine.json"

    def run(self, job: Training, seed: int) -> Path:
        """The run folder of a training; a changed default, or a change of behaviour, makes it another one."""
        digest, behaviour = job.resolved(seed).digest(), later(recipe_of(job, seed), ())
        if behaviour:
            digest = hashlib.sha256("\n".join([digest, *behaviour]).encode()).hexdigest()
        return self.runs / f"{job.key(seed)}-{digest[:4]}"

    def audit(self, job: Training, seed: int, measure: Measure) -> Path:
        """Where an audit keeps what it has measured until it is finished."""
        digest = hashlib.sha256(measure_key(measure).encode()).hexdigest()
        return self.audits / f"{self.run(job, seed).name}-{digest[:8]}"

    def trained(self, job: Training, seed: int) -> bool:
        """Whether its run is here and finished; a record may have come from another machine without it."""
        return TrainingFolder(self.run(job, seed)).finished() is not None

    def read(self, cell: Cell) -> dict[str, Any]:
        """The record of a cell, empty where there is none or where it is void today; void measures are left out."""
        return _counting(self.records / f"{cell.key}.json", cell)

    def seeds(self) -> set[int]:
        """Of all records, also those that are void."""
        return {int(found[1]) for file in self.records.glob("*.json") if (found := re.search(r"-s(\d+)$", file.stem))}

    def write(self, cell: Cell, record: dict[str, Any]) -> None:
        """Keep a record: what it says was made with the code of today, unless its parts say otherwise."""
        self.records.mkdir(parents=True, exist_ok=True)
        write_json(self.records / f"{cell.key}.json", {"schema": SCHEMA, "changes": names(), **record})

    def missing(self, cell: Cell) -> list[Measure] | None:
        """Measures not yet taken; None where nothing has been done yet. A cell that stopped early misses nothing."""
        record = self.read(cell)
        if not record:
            return None
        if record.get("stopped"):
            return []
        return [m for m in cell.job.measures if taken(record, m) is None]

    def stopped(self, cell: Cell) -> str | None:
        """Why its training ended early; None where it did not, or was not begun."""
        return self.read(cell).get("stopped")

    def done(self, cell: Cell) -> bool:
        """Whether nothing is left to do."""
        return self.missing(cell) == []

    def outcome(self, cell: Cell) -> Outcome | None:
        """What came of a cell so far, measures not yet taken left out; None where nothing is known."""
        record = self.read(cell)
        if not record:
            return None
        figures: dict[str, float | None] = {key: finite(value) for key, value in record.get("figures", {}).items()}
        series: dict[str, Any] = dict(record.get("series", {}))
        seconds, flags = float(record.get("seconds", 0.0)), {}
        for measure in cell.job.measures:
            found = taken(record, measure) or {}
            figures |= {f"{measure.prefix}/{key}": finite(v) for key, v in found.get("figures", {}).items()}
            series |= {f"{measure.prefix}/{key}": v for key, v in found.get("series", {}).items()}
            seconds += float(found.get("seconds", 0.0))
            if found.get("flags"):
                flags[measure.prefix] = list(map(str, found["flags"]))
        return Outcome(
            seed=cell.seed,
            figures=figures,
            series=series,
            seconds=seconds,
            place=record.get("place", {}),
            stopped=record.get("stopped"),
            flags=flags,
        )

    def results(self, arms: Iterable[Arm], cells: Iterable[Cell]) -> Results:
        """The outcomes of some cells by arm; every arm is there, those not run without any."""
        outcomes: dict[str, list[Outcome]] = {arm.name: [] for arm in arms}
        for cell in cells:
            found = self.outcome(cell)
            if found is not None:
                outcomes[cell.arm].append(found)
        return Results(outcomes=outcomes)

    def merge(self, other: str | Path, jobs: Iterable[Job] = ()) -> Merged:
        """Take over the records of another machine's folder; measures of one and the same model are joined.

        Args:
            other: the folder.
            jobs: those of which it is known what is void today; that is not taken over, and nothing of it is kept where
                the other folder has what counts.
        """
        theirs = Store(other)
        if not theirs.records.is_dir():
            raise HoldfastError(f"{other} holds no cells of studies; give the --out folder of the other machine")
        self.records.mkdir(parents=True, exist_ok=True)
        every = [Cell(arm="", job=job, seed=seed) for job in jobs for seed in theirs.seeds()]
        starts = [cell.job.first(cell.seed) for cell in every if isinstance(cell.job, Training)]
        cells = {cell.key: cell for cell in (*every, *starts) if cell is not None}
        new, differing = 0, []
        for file in sorted(theirs.records.glob("*.json")):
            mine, cell = self.records / file.name, cells.get(file.stem)
            more, known = _counting(file, cell), _counting(mine, cell)
            if not more:
                continue
            record = known or {**more, "measures": {}}
            if not same_model(record, more):
                differing.append(file)
                continue
            own, others = record.get("measures", {}), more.get("measures", {})
            joined = {**others, **own} | {
                key: found for key, found in others.items() if _says_more(found, own.get(key))
            }
            if not known or joined != own:
                write_json(mine, {**record, "measures": joined})
                new += 1
        return Merged(new=new, differing=tuple(differing))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Merged:
    """What came of taking over records.

    Args:
        new: records that are new here, or have measures that are.
        differing: files whose cell was trained here too, to another model; ours was kept.
    """

    new: int
    differing: tuple[Path, ...]


def _counting(file: Path, cell: Cell | None) -> dict[str, Any]:
    """What counts of a record today, where it is known of which cell it is; empty where there is none or nothing."""
    record = _record(file) if file.is_file() else {}
    if cell is None:
        return record
    known, recipe = record.get("changes", []), recipe_of(cell.job, cell.seed)
    if isinstance(cell.job, Training):
        recorded = flat(record["recipe"]) if "recipe" in record else recipe
        if later(recorded, known) or changed_keys(recorded, cell.job, cell.seed):
            return {}
    measures = record.get("measures", {})
    kept = {
        key: found
        for key, found in measures.items()
        if not later_for(json.loads(key), recipe, found.get("changes", known))
    }
    return {**record, "measures": kept} if kept != measures else record


def _says_more(found: Mapping[str, Any], known: Mapping[str, Any] | None) -> bool:
    """Whether an audit has checks that another of the same lacks."""
    return known is not None and found.get("checks", True) and not known.get("checks", True)


def same_model(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two records of a cell are of the same model: their test figures agree, time and log aside.

    Two trainings of one recipe on different hardware end in different models, and a measure of the one says nothing
    of the other.
    """
    if bool(one.get("stopped")) != bool(other.get("stopped")):
        return False
    figures, others = one.get("figures", {}), other.get("figures", {})
    shared = [key for key in figures.keys() & others.keys() if not key.startswith("log/")]
    if not shared:
        return not figures and not others
    pairs = [(finite(figures[key]), finite(others[key])) for key in shared]
    return all(a == b if a is None or b is None else math.isclose(a, b, rel_tol=1e-6) for a, b in pairs)


def _record(file: Path) -> dict[str, Any]:
    """A record from its file, its form checked: it may come from another machine."""
    try:
        record = json.loads(file.read_text("utf-8"))
        json.dumps(record, allow_nan=False, ensure_ascii=False).encode()  # what cannot be written again is not ours
        sound = record.get("schema", SCHEMA) == SCHEMA and isinstance(record.get("stopped"), str | None)
        sound = sound and all(isinstance(record.get(key, {}), dict) for key in ("place", "measures", "recipe"))
        sound = sound and all(isinstance(json.loads(key), dict) for key in record.get("measures", {}))
        for part in (record, *record.get("measures", {}).values()):
            sound = sound and all(isinstance(part.get(key, []), list) for key in ("changes", "flags"))
            sound = sound and all(isinstance(part.get(key, {}), dict) for key in ("figures", "series"))
            sound = sound and finite(part.get("seconds", 0.0)) is not None
    except (ValueError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise HoldfastError(f"{file} is no record of this version of holdfast; move it away, its cell is run again")
    return dict(record)
