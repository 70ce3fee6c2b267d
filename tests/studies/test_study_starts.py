"""Trainings that start from the model of another."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from holdfast.studies import campaign, running
from holdfast.studies.jobs import Cell, Training
from holdfast.studies.running import Places
from holdfast.studies.store import Store

START = Training(recipe="pocket", settings={"epochs": 1})
LATER = Training(recipe="gs-pocket", settings={"epochs": 1}, start=START)


def test_a_start_is_part_of_what_a_training_is() -> None:
    first = LATER.first(3)
    assert first == Cell(arm="start", job=START, seed=3)
    assert LATER.resolved(3).init == first.key
    plain = dataclasses.replace(LATER, start=None)
    other = dataclasses.replace(LATER, start=dataclasses.replace(START, settings={"epochs": 2}))
    assert len({job.identity(3) for job in (LATER, plain, other)}) == 3
    assert plain.first(3) is None


def test_the_start_is_trained_first_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[tuple[str, Any]] = []

    class Run:
        def __init__(self, folder: Path) -> None:
            self.folder = folder
            self.evaluation = {"metrics": {"R@1": 1.0}}

    def train(plain: dict[str, Any], out: Path, **_: Any) -> Run:
        if not out.exists():
            trained.append((out.name, plain["init"]))
            out.mkdir(parents=True)
            (out / "metrics.jsonl").write_text("", "utf-8")
        return Run(out)

    monkeypatch.setattr(running, "train", train)
    for name in ("passes_per_step", "training_seconds"):
        monkeypatch.setattr(running, name, lambda *_: 1.0)
    store = Store(tmp_path)
    cells = [
        Cell(arm=name, job=dataclasses.replace(LATER, settings={"epochs": n}), seed=0)
        for n, name in ((1, "a"), (2, "b"))
    ]
    assert campaign.run_cells(cells, store, Places(device="cpu")) == {}
    first = Cell(arm="start", job=START, seed=0)
    init = str(store.run(first))
    runs = [store.run(cell).name for cell in (first, *cells)]
    assert trained == list(zip(runs, (None, init, init), strict=True))
    assert store.done(first)
