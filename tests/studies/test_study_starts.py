"""Trainings that start from the model of another."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from fake_training import FakeTraining, evaluation_of, fake_training

from holdfast.errors import HoldfastError
from holdfast.training.folder import TrainingFolder
from holdfast.training.health import Collapsed
from holdfast.training.recipe import load_recipe
from holdfast_studies import campaign, running
from holdfast_studies.jobs import START as NAMED
from holdfast_studies.jobs import AuditMeasure, Cell, Training
from holdfast_studies.running import Places, take_start
from holdfast_studies.store import Store

__all__ = ["fake_training"]

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


def test_a_start_is_what_the_settings_name_it_for(tmp_path: Path, fake_training: FakeTraining) -> None:
    """A teacher alone, or a teacher and the first weights; a path is no part of what a training is."""
    taught = {"epochs": 1, "extras": [{"name": "teacher", "model": NAMED}]}
    teacher = Training(recipe="at-pocket", settings=taught, start=START)
    both = dataclasses.replace(teacher, settings={**taught, "init": NAMED})
    first = teacher.first(0)
    assert first is not None
    for job, init in ((teacher, None), (both, first.key)):
        recipe = job.resolved(0)
        assert recipe.init == init
        assert recipe.plain()["extras"][0]["model"] == first.key
    assert len({job.identity(0) for job in (teacher, both, dataclasses.replace(both, settings={"epochs": 1}))}) == 3
    store = Store(tmp_path)
    cells = [Cell(arm=name, job=job, seed=0) for name, job in (("teacher", teacher), ("both", both))]
    assert campaign.run_cells(cells, store, Places(device="cpu")) == {}
    run = str(store.run(START, 0))
    assert fake_training.inits == [None, None, run]
    assert fake_training.teachers == [None, run, run]


FIRST = Cell(arm="start", job=START, seed=0)
CELLS = [
    Cell(arm=name, job=dataclasses.replace(LATER, settings={"epochs": n}), seed=0) for n, name in ((1, "a"), (2, "b"))
]


def test_the_start_is_trained_first_and_once(tmp_path: Path, fake_training: FakeTraining) -> None:
    store = Store(tmp_path)
    assert campaign.run_cells(CELLS, store, Places(device="cpu")) == {}
    runs = [store.run(cell.job, 0).name for cell in (FIRST, *CELLS)]
    assert fake_training.folders == runs
    init = str(store.run(START, 0))
    assert fake_training.inits == [None, init, init]
    assert store.done(FIRST)


def test_a_start_whose_record_came_without_its_run_is_trained_before_the_others(
    tmp_path: Path, fake_training: FakeTraining
) -> None:
    store = Store(tmp_path)
    store.write(FIRST, {"figures": {"R@1": 7.0}, "measures": {}})
    assert campaign.run_cells(CELLS, store, Places(device="cpu")) == {}
    assert fake_training.folders[0] == store.run(START, 0).name
    assert len(fake_training.folders) == 3


def test_a_start_that_stops_is_no_result_of_those_after_it(tmp_path: Path, fake_training: FakeTraining) -> None:
    store = Store(tmp_path)
    fake_training.errors[START.key(0)] = Collapsed("the model has collapsed")
    for _ in range(2):
        failed = campaign.run_cells(CELLS, store, Places(device="cpu"))
        assert failed == {
            cell.key: "the model it starts from was not trained: the model has collapsed" for cell in CELLS
        }
    assert fake_training.folders == [store.run(START, 0).name], "it would collapse again"
    assert store.stopped(FIRST) == "the model has collapsed"
    assert not any(store.read(cell) for cell in CELLS)


def test_a_start_that_cannot_be_trained_is_not_tried_by_those_after_it(
    tmp_path: Path, fake_training: FakeTraining
) -> None:
    store = Store(tmp_path)
    fake_training.errors[START.key(0)] = OSError("disk full")
    failed = campaign.run_cells(CELLS, store, Places(device="cpu"))
    assert failed[FIRST.key] == "OSError: disk full"
    assert len(failed) == 3
    assert len(fake_training.folders) == 1


def test_a_start_of_which_a_measure_fails_is_a_model_all_the_same(
    tmp_path: Path, fake_training: FakeTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    audited = dataclasses.replace(FIRST, job=dataclasses.replace(START, measures=(AuditMeasure(),)))

    def breaks(*_: object) -> None:
        raise HoldfastError("no pairs")

    monkeypatch.setattr(running, "_measure", breaks)
    for _ in range(2):
        assert campaign.run_cells([audited, *CELLS], store, Places(device="cpu")) == {FIRST.key: "no pairs"}
    assert [store.done(cell) for cell in (audited, *CELLS)] == [False, True, True]
    assert len(fake_training.folders) == 3


def test_a_start_that_recipes_share_is_trained_once(tmp_path: Path) -> None:
    """Copied from a finished run beside it; another seed's is another one, and so is one that is under way."""
    shared = {"epochs": 1, "start": {"epochs": 1, "ema": None}}
    jobs = [Training(recipe="pocket", settings={**shared, "ema": ema}) for ema in (None, 0.5)]
    plain = jobs[1].resolved(0).plain()
    first = load_recipe(plain).first()
    assert first is not None
    store = Store(tmp_path)
    there, here = (TrainingFolder(store.run(job, 0)) for job in jobs)
    run = TrainingFolder(there.first)
    run.checkpoints.mkdir(parents=True)
    run.recipe_file.write_text(first.yaml(), "utf-8")
    take_start(here.folder, plain)
    assert not here.first.exists()
    run.evaluation.write_text(json.dumps(evaluation_of(1.0)), "utf-8")
    take_start(here.folder, jobs[1].resolved(1).plain())
    assert not here.first.exists()
    take_start(here.folder, plain)
    taken = TrainingFolder(here.first)
    assert taken.open(first) == evaluation_of(1.0)
    assert not taken.checkpoints.exists()
