"""Cells that are left to run, and what a campaign came to."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.errors import plural
from holdfast_studies.jobs import AuditMeasure, Cell, Measure, Training, measure_key
from holdfast_studies.running import Places
from holdfast_studies.store import Store


def distinct(cells: Sequence[Cell]) -> list[Cell]:
    """Each training and computation once, in the order first asked for, with all measures that anyone asks for."""
    joined: dict[str, Cell] = {}
    for cell in cells:
        known = joined.setdefault(cell.key, cell)
        if isinstance(known.job, Training):
            job = dataclasses.replace(known.job, measures=_joined(*known.job.measures, *cell.job.measures))
            joined[cell.key] = dataclasses.replace(known, job=job)
    return list(joined.values())


def _joined(*measures: Measure) -> tuple[Measure, ...]:
    """Each measure once, with checks where anyone asks for them."""
    kept: dict[str, Measure] = {}
    for measure in measures:
        if measure_key(measure) not in kept or (isinstance(measure, AuditMeasure) and measure.checks):
            kept[measure_key(measure)] = measure
    return tuple(kept.values())


class Pending:
    """Cells that are left, in the order in which they are to be run, and why some cannot be.

    A cell that starts from the model of another waits for that one's training, which is part of what is left.

    Args:
        cells: that are wanted.
        store: what is done already.
        places: of datasets and weights.
    """

    def __init__(self, cells: Sequence[Cell], store: Store, places: Places) -> None:
        self.store, self.places = store, places
        self.failed: dict[str, str] = {}
        undone = [cell for cell in cells if not store.done(cell)]
        starts = [start for cell in undone if (start := _start(cell)) is not None and not self._over(start)]
        self.cells = distinct([*starts, *undone])

    def sort(self, key: Callable[[Cell], Any]) -> None:
        """Put them into another order."""
        self.cells.sort(key=key)

    def take(self) -> Cell | None:
        """The next cell that can be run now; those that never can be are failed on the way."""
        for cell in list(self.cells):
            start = _start(cell)
            if lacks := self.places.lacks(cell):
                self.fail(cell, f"needs {lacks}")
            elif start is None or self._trained(start):
                self.cells.remove(cell)
                return cell
            elif (lost := self.store.stopped(start) or self.failed.get(start.key)) is not None:
                self.fail(cell, f"the model it starts from was not trained: {lost}")
        return None

    def put_back(self, cell: Cell) -> None:
        """Run a cell again, before all others."""
        self.cells.insert(0, cell)

    def fail(self, cell: Cell, why: str) -> None:
        """Give a cell up."""
        self.failed[cell.key] = why
        if cell in self.cells:
            self.cells.remove(cell)

    def _trained(self, start: Cell) -> bool:
        """Whether a start's model is there, measured or not; a record alone may be of another machine."""
        return isinstance(start.job, Training) and self.store.trained(start.job, start.seed)

    def _over(self, start: Cell) -> bool:
        """Whether a start's model is there, or never will be."""
        return self._trained(start) or self.store.stopped(start) is not None


def _start(cell: Cell) -> Cell | None:
    """The training whose model a cell starts from."""
    return cell.job.first(cell.seed) if isinstance(cell.job, Training) else None


@dataclasses.dataclass
class Tally:
    """What a campaign came to.

    Args:
        cells: that were finished.
        left: that were not, failures aside.
        seconds: that it took.
        ideal: seconds in which its devices, at the ceilings of their networks, would have passed as many images forward
            and back; audits count when they are finished.
        devices: that it ran on.
    """

    cells: int = 0
    left: int = 0
    seconds: float = 0.0
    ideal: float = 0.0
    devices: int = 1

    def start(self, devices: int = 1) -> None:
        """From now on it counts."""
        self.devices, self._began = devices, time.monotonic()

    def add(self, ideal: float, cells: int) -> None:
        """Work that was done, and cells that it finished."""
        self.ideal += ideal
        self.cells += cells

    def stop(self, left: int) -> None:
        """It is over."""
        self.left, self.seconds = left, time.monotonic() - self._began

    @property
    def share(self) -> float | None:
        """Of the ceiling; None where nothing was trained, or none is known."""
        return round(self.ideal / self.seconds / self.devices, 3) if self.ideal else None

    def plain(self) -> dict[str, float | None]:
        """As plain data."""
        hours = self.seconds / 3600
        return {
            "cells": self.cells,
            "left": self.left,
            "minutes": round(self.seconds / 60, 2),
            "cells_per_hour": round(self.cells / hours, 1) if hours else None,
            "share_of_ceiling": self.share,
        }

    def __str__(self) -> str:
        """One line for a person."""
        found = self.plain()
        per_hour = found["cells_per_hour"]
        text = f"{plural(self.cells, 'cell')} in {found['minutes']:g} minutes"
        text += "" if per_hour is None else f", {per_hour:g} cells per hour"
        if self.share is None:
            return text
        if self.share > 1:
            return f"{text}, faster than the ceiling that was measured, which is measured again next time"
        return f"{text}, {100 * self.share:.0f} % of the ceiling"
