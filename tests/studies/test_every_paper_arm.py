"""Every training of paper scale runs, an epoch of small pictures, with all that its study measures of it."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast import mining
from holdfast_studies import base
from holdfast_studies.jobs import AuditMeasure, Cell, Measure, Training, taken, unplaced
from holdfast_studies.running import Places, run_cell
from holdfast_studies.store import Store

SMALL: dict[str, Any] = {
    "epochs": 1,
    "evaluate_every": 1,
    "checkpoint_every": None,
    "model.backbone": "test_resnet",
    "model.weights": None,
    "model.size": 32,
    "model.canvas": 36,
}
PICTURES = {"name": "glyphs", "characters": 150, "per_class": 4}
"""A fifth of the classes may be held out of the half that is learnt: 60 are left, for batches of 56."""
SCRIPTS = 12
"""Coarse classes of the training half, where the papers' data have more."""
MNIST = {"name": "mnist", "labels": "coarse"}
"""Whose measures ask for digits; those trainings are small as they are."""


def small(job: Training) -> Training:
    """The same training of one epoch, of small pictures through a small network."""
    recipe, labels = job.flat(0), unplaced(job.data).get("labels", "fine")
    settings = {**job.settings, **SMALL}
    if recipe.get("augment.size"):
        settings["augment.size"] = SMALL["model.size"]
    if given := {**job.row, **job.settings}.get("extras"):
        settings["extras"] = [{**extra, "size": 24} if "size" in extra else extra for extra in given]
    if labels == "coarse":
        settings["batch.classes"] = min(recipe["batch.classes"], SCRIPTS)
    start = small(job.start) if job.start else None
    measures = tuple(map(few, job.measures))
    data = {**PICTURES, "labels": labels}
    return dataclasses.replace(job, data=data, settings=settings, measures=measures, start=start)


def few(measure: Measure) -> Measure:
    """The same of fewer images."""
    return dataclasses.replace(measure, limit=6) if isinstance(measure, AuditMeasure) and measure.limit else measure


def kind(job: Training) -> str:
    """What trainings that differ in numbers and in miners only have in common."""
    parts = [job.flat(0), [repr(measure) for measure in job.measures], job.start and kind(job.start)]
    miners = "|".join(mining.names())
    return re.sub(rf"-?\d+(\.\d+)?(e-?\d+)?|\b({miners})\b", "0", json.dumps(parts, sort_keys=True))


@functools.cache
def different() -> dict[str, list[Cell]]:
    """Study → one cell of every kind of training that it has at paper scale and none before it has."""
    found: dict[str, list[Cell]] = {}
    seen: set[str] = set()
    for name in base.names():
        jobs = {arm.name: arm.job for arm in base.get(name).arms("paper")}
        trainings = {arm: job for arm, job in jobs.items() if isinstance(job, Training) and job.data != MNIST}
        smaller = [Cell(arm=arm, job=small(job), seed=0) for arm, job in trainings.items()]
        cells = {kind(cell.job): cell for cell in smaller}
        found[name] = [cell for key, cell in cells.items() if key not in seen]
        seen |= cells.keys()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", base.names())
def test_trainings_of_paper_scale_run_and_are_measured(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    for cell in different()[name]:
        for needed in (cell.job.first(0), cell):
            if needed is not None:
                run_cell(needed, store, Places(device="cpu"))
        record = store.read(cell)
        assert record is not None, cell.arm
        assert not record.get("stopped"), cell.arm
        for measure in cell.job.measures:
            assert taken(record, measure), f"{cell.arm}: {measure.prefix}"
