"""Cells that fail, stop or diverge, and models that are trained twice."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_training import FakeTraining, evaluation_of, fake_training
from fake_workers import HereWorker, workers_here

from holdfast import audit
from holdfast.audit.base import Protocol
from holdfast.config import instantiate
from holdfast.training import Interrupted
from holdfast.training.folder import TrainingFolder
from holdfast.training.health import Diverged
from holdfast.training.recipe import load_recipe
from holdfast_studies import campaign, probes, running
from holdfast_studies.jobs import AuditMeasure, Cell, Computation, Probe, Training, measure_key
from holdfast_studies.running import Places, relocate, take_start
from holdfast_studies.store import Store

__all__ = ["fake_training", "workers_here"]

AUDITS = (AuditMeasure(limit=10), AuditMeasure(mode="published"))
CELLS = [Cell(arm=f"{n}", job=Training(recipe="pocket", settings={"epochs": n}), seed=0) for n in (1, 2, 3)]
HERE = Places(device="cpu")
MEASURE = running._measure


@pytest.fixture(params=[1, 2])
def jobs(request: pytest.FixtureRequest, workers_here: type[HereWorker]) -> int:
    return int(request.param)


def test_an_interruption_ends_the_campaign(tmp_path: Path, fake_training: FakeTraining) -> None:
    fake_training.errors[CELLS[1].key] = Interrupted("stopped at step 3")
    store = Store(tmp_path)
    with pytest.raises(Interrupted):
        campaign.run_cells(CELLS, store, HERE)
    assert not store.done(CELLS[1])
    assert not store.done(CELLS[2])


@pytest.mark.parametrize(
    "error", [RuntimeError("CUDA out of memory.\nTried to"), OSError("disk full"), ValueError("nan")]
)
def test_a_cell_that_breaks_does_not_stop_the_others(
    error: Exception, tmp_path: Path, fake_training: FakeTraining, jobs: int
) -> None:
    fake_training.errors[CELLS[1].key] = error
    store = Store(tmp_path)
    line = f"{type(error).__name__}: {' '.join(str(error).split())}"
    assert campaign.run_cells(CELLS, store, HERE, jobs) == {CELLS[1].key: line}
    assert [store.done(cell) for cell in CELLS] == [True, False, True]


def test_a_divergence_is_a_result(tmp_path: Path, fake_training: FakeTraining) -> None:
    fake_training.errors[CELLS[0].key] = Diverged("the loss became NaN")
    store = Store(tmp_path)
    assert campaign.run_cells(CELLS[:1], store, HERE) == {}
    outcome = store.outcome(CELLS[0])
    assert outcome is not None
    assert (outcome.stopped, outcome.figures) == ("the loss became NaN", {"diverged": 1.0})
    assert store.done(CELLS[0])


def test_lines_of_a_log_that_no_run_wrote_are_left_out(tmp_path: Path, fake_training: FakeTraining) -> None:
    store = Store(tmp_path)
    log = store.run(CELLS[0].job, 0) / "metrics.jsonl"
    log.parent.mkdir(parents=True)
    look = {"step": 5, "epoch": 1, "validation": {"R@1": 30.0}}
    strange = [{**look, "validation": [1]}, {**look, "step": "5"}, {**look, "epoch": None}, {"validation": {}}, [1]]
    undefined = {**look, "epoch": 2, "validation": {"R@1": "high"}}
    log.write_text("".join(json.dumps(line) + "\n" for line in [{**look, "step": 0}, *strange, look, undefined]))
    (log.parent / "evaluation.json").write_text(json.dumps(evaluation_of(1.0)))
    campaign.run_cells(CELLS[:1], store, HERE)
    outcome = store.outcome(CELLS[0])
    assert outcome is not None
    assert outcome.series["validation R@1"] == [[1, 30.0], [2, None]]
    assert outcome.figures["log/validation R@1"] == 30.0
    assert "test R@1" not in outcome.series


def test_last_and_best_on_test_are_figures_of_their_own(tmp_path: Path, fake_training: FakeTraining) -> None:
    store = Store(tmp_path)
    log = store.run(CELLS[0].job, 0) / "metrics.jsonl"
    log.parent.mkdir(parents=True)
    lines = [{"step": 5 * epoch, "epoch": epoch, "test": {"R@1": 40.0 + epoch}} for epoch in range(3)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    best = {"epoch": 1, "R@1": 41.0}
    (log.parent / "evaluation.json").write_text(json.dumps({**evaluation_of(39.0), "best_on_test": best}))
    campaign.run_cells(CELLS[:1], store, HERE)
    outcome = store.outcome(CELLS[0])
    assert outcome is not None
    assert outcome.figures["R@1"] == 39.0
    assert outcome.figures["best on test R@1"] == 41.0
    assert outcome.figures["best on test epoch"] == 1.0
    assert outcome.series["test R@1"] == [[0, 40.0], [1, 41.0], [2, 42.0]]


@pytest.mark.parametrize("same", [True, False])
def test_measures_of_another_model_are_dropped(same: bool, tmp_path: Path, fake_training: FakeTraining) -> None:
    """The run is not here: only if training it again gives the same model do its older measures stay."""
    cell = dataclasses.replace(CELLS[0], job=dataclasses.replace(CELLS[0].job, measures=AUDITS))
    known, lacking = map(measure_key, AUDITS)
    elsewhere = measure_key(AuditMeasure(protocol="adml"))
    store = Store(tmp_path)
    taken = {key: {"figures": {"value": 7.0}} for key in (known, elsewhere)}
    store.write(cell, {"figures": {"R@1": 1.0 if same else 2.0}, "measures": taken, "place": {"device": "far"}})
    campaign.run_cells([cell], store, HERE)
    record = store.read(cell)
    found = {key: measure["figures"]["value"] for key, measure in record["measures"].items()}
    assert found == ({known: 7.0, elsewhere: 7.0, lacking: 1.0} if same else {known: 1.0, lacking: 1.0})
    assert record["figures"]["R@1"] == 1.0
    assert (record["place"]["device"] == "far") == same


def test_an_audit_keeps_what_it_measured_until_that_is_filed(
    tmp_path: Path, fake_training: FakeTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, cell = Store(tmp_path), dataclasses.replace(CELLS[0], job=dataclasses.replace(CELLS[0].job, measures=AUDITS))
    found: list[bool] = []
    write = store.write

    def attacks(*_: Any, out: Path, **__: Any) -> Any:
        found.append(out.is_dir())
        out.mkdir(parents=True, exist_ok=True)
        if len(found) == 1:
            raise OSError("disk full")
        return SimpleNamespace(document={"metrics": {"ERS": 1.0}, "flags": [], "intervals": {}})

    def full(cell: Cell, record: dict[str, Any]) -> None:
        if record["measures"]:
            raise OSError("disk full")
        write(cell, record)

    monkeypatch.setattr(running, "_measure", MEASURE)
    monkeypatch.setattr(running.audit, "run", attacks)
    assert campaign.run_cells([cell], store, HERE) == {cell.key: "OSError: disk full"}
    with monkeypatch.context() as patch:
        patch.setattr(store, "write", full)
        assert campaign.run_cells([cell], store, HERE) == {cell.key: "OSError: disk full"}
    assert campaign.run_cells([cell], store, HERE) == {}
    assert found == [False, True, True, False], "the first goes on where it was, the other begins"
    assert list(store.audits.iterdir()) == []


@pytest.mark.parametrize("protocol", audit.names())
def test_every_protocol_is_a_measure(protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that have no eps."""
    asked: list[Any] = []

    def attacks(model: str, data: Any, protocol: Any, **_: Any) -> Any:
        asked.append(instantiate(Protocol, protocol, "protocol"))
        return SimpleNamespace(document={"metrics": {}, "flags": [], "intervals": {}})

    monkeypatch.setattr(running.audit, "run", attacks)
    scene = probes.Scene(seed=0, device=torch.device("cpu"))
    measure = AuditMeasure(protocol=protocol)
    MEASURE(measure, CELLS[0].job, 0, Store(tmp_path), HERE, scene)
    assert len(asked) == 1


def test_the_file_of_weights_is_on_record(tmp_path: Path) -> None:
    file = tmp_path / "resnet50.pth"
    file.write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()[:12]
    places = Places(weights={"resnet50": f"{file}@stride-1x1"})
    looks = Cell(arm="a", job=Computation(measure=Probe(function="p"), data="cub", backbone="resnet50"), seed=0)
    learns = Cell(arm="b", job=Training(recipe="resnet50-ms", data="cub"), seed=0)
    assert places.weights_of(looks) == [f"resnet50: resnet50.pth (SHA-256 {digest}) in the layout stride-1x1"]
    usual = Places(weights={"resnet50": str(file)})
    assert usual.weights_of(looks) == [f"resnet50: resnet50.pth (SHA-256 {digest})"]
    assert places.weights_of(learns) == places.weights_of(looks)
    model = learns.job.resolved(0).plain()["model"]  # type: ignore[union-attr]
    assert places.model(model) == {**model, "weights": str(file), "layout": "stride-1x1"}
    exact = Places(weights={"resnet50": "other.pth", "resnet50.tv_in1k": "exact.pth"})
    assert exact.model(model) == {**model, "weights": "exact.pth"}
    assert places.weights_of(CELLS[0]) == []
    assert Places().weights_of(learns) == []


def placed(root: str, weights: str, init: str | None = None) -> dict[str, Any]:
    plain = Training(recipe="resnet50-ms", data="cub").resolved(0).plain()
    block = {**plain["data"], "root": root}
    return {**plain, "data": block, "model": {**plain["model"], "weights": weights}, "init": init}


def taught(teacher: str, weight: float = 1.0) -> dict[str, Any]:
    regime = {"name": "at", "goal": "single-target"}
    return {
        **placed("a", "w.pth"),
        "regime": regime,
        "extras": [{"name": "teacher", "model": teacher, "weight": weight}],
    }


@pytest.mark.parametrize(
    ("before", "after", "goes_on"),
    [
        (placed("a", "a/w.pth"), placed("b", "b/w.pth"), True),
        (placed("a", "w.pth", "runs/start-1"), placed("a", "w.pth", "moved/runs/start-1"), True),
        (taught("runs/plain-1"), taught("moved/runs/plain-1"), True),
        (taught("runs/plain-1"), taught("runs/plain-2"), False),
        (taught("runs/plain-1"), taught("runs/plain-1", weight=2.0), False),
        (placed("a", "a/w.pth"), placed("a", "a/other.pth"), False),
        (placed("a", "imagenet"), placed("a", "a/w.pth"), False),
        (placed("a", "w.pth"), {**placed("b", "w.pth"), "epochs": 77}, False),
    ],
)
def test_a_run_goes_on_where_its_files_have_moved(before: dict, after: dict, goes_on: bool, tmp_path: Path) -> None:
    run = TrainingFolder(tmp_path)
    run.recipe_file.write_text(load_recipe(before).yaml(), "utf-8")
    finished = evaluation_of(1.0)
    run.evaluation.write_text(json.dumps(finished), "utf-8")
    relocate(tmp_path, after)
    if goes_on:
        assert run.open(load_recipe(after)) == finished
    else:
        assert run.open(load_recipe(before)) == finished


def test_the_run_that_comes_first_goes_on_where_its_files_have_moved(tmp_path: Path) -> None:
    before, after = ({**placed(root, f"{root}/w.pth"), "start": {"epochs": 1}} for root in ("a", "b"))
    first, there = load_recipe(after).first(), load_recipe(before).first()
    assert first is not None
    assert there is not None
    run = TrainingFolder(TrainingFolder(tmp_path / "run").first)
    run.folder.mkdir(parents=True)
    run.recipe_file.write_text(there.yaml(), "utf-8")
    run.evaluation.write_text(json.dumps(evaluation_of(1.0)), "utf-8")
    take_start(tmp_path / "beside", after)
    relocate(tmp_path / "beside", after)
    relocate(tmp_path / "run", after)
    assert run.open(first) == evaluation_of(1.0)
    assert TrainingFolder(TrainingFolder(tmp_path / "beside").first).open(first) == evaluation_of(1.0)
