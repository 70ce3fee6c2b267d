"""Records of finished cells: one JSON file each, written whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.files import write_json
from holdfast.run_files import finite
from holdfast.studies.jobs import Arm, Cell, Measure, Training
from holdfast.studies.results import Outcome, Results

SCHEMA = 1


class Store:
    """A folder of records, and beside them the runs they came from.

    Cells are filed by what they do, not by the study that asked: a training that two studies share is one record, and
    a measure that a later study adds is put into it. Folders of several machines merge by copying records.

    Args:
        folder: made when something is written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.records = self.folder / "cells"
        self.runs = self.folder / "runs"

    def run(self, cell: Cell) -> Path:
        """The run folder of a training; a changed default of the package makes it another one."""
        digest = (
            cell.job.resolved(cell.seed).digest() if isinstance(cell.job, Training) else cell.job.identity(cell.seed)
        )
        return self.runs / f"{cell.key}-{digest[:4]}"

    def read(self, cell: Cell) -> dict[str, Any]:
        """The record of a cell, empty where there is none or where it is of a recipe that reads otherwise today."""
        file = self.records / f"{cell.key}.json"
        try:
            record = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        except ValueError:
            record = None
        if not isinstance(record, dict) or record.get("schema", SCHEMA) != SCHEMA:
            raise HoldfastError(f"{file} is no record of this version of holdfast; move it away, its cell is run again")
        known = record.get("recipe")
        if isinstance(cell.job, Training) and known is not None:
            return record if agrees(known, cell.job.resolved(cell.seed).plain()) else {}
        return record

    def write(self, cell: Cell, record: dict[str, Any]) -> None:
        """Keep a record."""
        self.records.mkdir(parents=True, exist_ok=True)
        write_json(self.records / f"{cell.key}.json", {"schema": SCHEMA, **record})

    def missing(self, cell: Cell) -> list[Measure] | None:
        """Measures not yet taken; None where nothing has been done yet. A cell that stopped early misses nothing."""
        record = self.read(cell)
        if not record:
            return None
        if record.get("stopped"):
            return []
        return [m for m in cell.job.measures if measure_key(m) not in record.get("measures", {})]

    def done(self, cell: Cell) -> bool:
        """Whether nothing is left to do."""
        return self.missing(cell) == []

    def outcome(self, cell: Cell) -> Outcome | None:
        """What came of a cell so far, measures not yet taken left out; None where nothing is known."""
        record = self.read(cell)
        if not record:
            return None
        taken = record.get("measures", {})
        figures: dict[str, float | None] = {key: finite(value) for key, value in record.get("figures", {}).items()}
        series: dict[str, Any] = dict(record.get("series", {}))
        seconds = float(record.get("seconds", 0.0))
        for measure in cell.job.measures:
            found = taken.get(measure_key(measure), {})
            figures |= {f"{measure.prefix}/{key}": finite(v) for key, v in found.get("figures", {}).items()}
            series |= {f"{measure.prefix}/{key}": v for key, v in found.get("series", {}).items()}
            seconds += float(found.get("seconds", 0.0))
        return Outcome(
            seed=cell.seed,
            figures=figures,
            series=series,
            seconds=seconds,
            place=record.get("place", {}),
            stopped=record.get("stopped"),
        )

    def results(self, arms: Iterable[Arm], cells: Iterable[Cell]) -> Results:
        """The outcomes of some cells by arm; every arm is there, those not run without any."""
        outcomes: dict[str, list[Outcome]] = {arm.name: [] for arm in arms}
        for cell in cells:
            found = self.outcome(cell)
            if found is not None:
                outcomes[cell.arm].append(found)
        return Results(outcomes=outcomes)

    def merge(self, other: str | Path) -> int:
        """Take over the records of another machine's folder; measures are joined, returns how many files were new."""
        theirs = Path(other) / "cells"
        if not theirs.is_dir():
            raise HoldfastError(f"{other} holds no cells of studies; give the --out folder of the other machine")
        self.records.mkdir(parents=True, exist_ok=True)
        new = 0
        for file in sorted(theirs.glob("*.json")):
            mine = self.records / file.name
            if not mine.is_file():
                shutil.copyfile(file, mine)
                new += 1
                continue
            record, more = json.loads(mine.read_text("utf-8")), json.loads(file.read_text("utf-8"))
            joined = {**more.get("measures", {}), **record.get("measures", {})}
            if joined != record.get("measures", {}):
                write_json(mine, {**record, "measures": joined})
                new += 1
        return new


def agrees(recorded: Any, current: Any) -> bool:
    """Whether all that a recorded recipe says still holds; keys that came later are no reason to run it again."""
    if isinstance(recorded, dict) and isinstance(current, dict):
        return all(key in current and agrees(value, current[key]) for key, value in recorded.items())
    if isinstance(recorded, list) and isinstance(current, list):
        return len(recorded) == len(current) and all(map(agrees, recorded, current))
    return bool(recorded == current)


def measure_key(measure: Measure) -> str:
    """A name for exactly this measure, whatever prefix a study gives it."""
    plain = {key: value for key, value in dataclasses.asdict(measure).items() if key != "name" and value is not None}
    return json.dumps(plain, sort_keys=True)
