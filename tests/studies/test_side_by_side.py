"""Cells side by side: in which order, how many, what happens when one dies or time is up."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import stat
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_training import FakeTraining, fake_training
from fake_workers import HereWorker, holding, stopped_once, workers_here

from holdfast import console, devices
from holdfast.models import compile_choice
from holdfast.training import Interrupted
from holdfast_studies import campaign, mps, running, side_by_side, workers
from holdfast_studies.ceilings import Machine, look_at_machine, measure_ceiling, remember_jobs
from holdfast_studies.expected import expected_seconds
from holdfast_studies.job_count import ROOM, JobCount, job_counts
from holdfast_studies.jobs import AuditMeasure, Cell, Training
from holdfast_studies.pending import Pending, Tally
from holdfast_studies.running import Places
from holdfast_studies.store import Store

__all__ = ["fake_training", "workers_here"]

CELLS = [Cell(arm=f"{n}", job=Training(recipe="pocket", settings={"epochs": n}), seed=0) for n in (2, 1, 3)]
HERE = Places(device="cpu")
TINY = {"model.backbone": "conv-tiny", "batch.classes": 4, "epochs": 2}
GLYPHS = {"name": "glyphs", "characters": 30, "per_class": 5}
REAL = [
    Cell(arm=f"dim {dim}", job=Training("pocket", GLYPHS, settings={**TINY, "model.dim": dim}), seed=0)
    for dim in (8, 16)
]


def trained(fake: FakeTraining) -> list[str]:
    """The cells whose trainings were begun, in turn."""
    return [next(cell.arm for cell in CELLS if name.startswith(cell.key)) for name in fake.folders]


def test_the_longest_comes_first_and_what_is_begun_before_it(
    tmp_path: Path, fake_training: FakeTraining, workers_here: type[HereWorker]
) -> None:
    assert campaign.run_cells(CELLS, Store(tmp_path / "a"), HERE, 2) == {}
    assert trained(fake_training) == ["3", "2", "1"]
    store = Store(tmp_path / "b")
    (store.run(CELLS[1].job, 0) / "checkpoint" / "000000005").mkdir(parents=True)
    fake_training.folders.clear()
    assert campaign.run_cells(CELLS, store, HERE, 2) == {}
    assert trained(fake_training) == ["1", "3", "2"]


def test_a_cell_knows_how_many_compile_the_same_network_and_share_its_device(
    tmp_path: Path, fake_training: FakeTraining, workers_here: type[HereWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[tuple[int, float]] = []

    def train(*args: Any, **settings: Any) -> Any:
        known.append((compile_choice._runs.get(), devices._share.get()))
        return before(*args, **settings)

    before = running.train
    monkeypatch.setattr(running, "train", train)
    other = Cell(arm="other", job=Training(recipe="pocket", settings={"model.backbone": "conv-tiny"}), seed=0)
    assert campaign.run_cells([*CELLS, other], Store(tmp_path / "two"), HERE, 2) == {}
    assert sorted(known) == [(alike, ROOM / 2) for alike in (1, 1, 2, 3)]
    known.clear()
    assert campaign.run_cells(CELLS, Store(tmp_path / "one"), HERE, 1) == {}
    assert known == [(1, 1.0)] * len(CELLS)


def test_a_start_comes_before_what_waits_for_it_however_short(
    tmp_path: Path, fake_training: FakeTraining, workers_here: type[HereWorker]
) -> None:
    start = Training(recipe="pocket", settings={"epochs": 1})
    later = Cell(arm="later", job=Training(recipe="pocket", settings={"epochs": 9}, start=start), seed=0)
    store = Store(tmp_path)
    assert campaign.run_cells([later], store, HERE, 2) == {}
    assert fake_training.folders == [store.run(start, 0).name, store.run(later.job, 0).name]


def test_what_is_left_of_a_cell_decides_how_long_it_takes(tmp_path: Path, fake_training: FakeTraining) -> None:
    store, rates = Store(tmp_path), {("conv-small", None, 64): 100.0}
    audited = dataclasses.replace(CELLS[0].job, measures=(AuditMeasure(limit=100), AuditMeasure(protocol="adml")))
    cell = dataclasses.replace(CELLS[0], job=audited)
    plain, whole = (expected_seconds(one, store, rates) for one in (CELLS[0], cell))
    assert whole > plain > 0
    running.run_cell(CELLS[0], store, HERE)
    assert expected_seconds(cell, store, rates) == pytest.approx(whole - plain)
    assert expected_seconds(CELLS[0], store, rates) == 0
    slow = expected_seconds(CELLS[2], store, {("conv-small", None, 64): 50.0})
    assert slow == 2 * expected_seconds(CELLS[2], store, rates)


@pytest.mark.parametrize("deaths", [1, 2])
def test_the_cell_of_a_killed_worker_is_begun_again_once(
    deaths: int, tmp_path: Path, fake_training: FakeTraining, workers_here: type[HereWorker]
) -> None:
    left = itertools.repeat(CELLS[2].key, deaths)
    workers_here.dies = staticmethod(
        lambda cell, *_: isinstance(cell, Cell) and cell.key == CELLS[2].key and next(left, None) is not None
    )
    store = Store(tmp_path)
    failed = campaign.run_cells(CELLS, store, HERE, 2)
    assert list(failed) == ([CELLS[2].key] if deaths == 2 else [])
    assert [store.done(cell) for cell in CELLS] == [True, True, deaths == 1]
    assert all("killed" in why for why in failed.values())


def test_memory_that_ran_out_is_tried_again_with_all_that_is_free_and_then_told(
    tmp_path: Path, fake_training: FakeTraining, workers_here: type[HereWorker]
) -> None:
    parts: list[int] = []

    def seen(cell: Any, *more: Any) -> bool:
        if isinstance(cell, Cell) and cell.key == CELLS[0].key:
            parts.append(more[-1].jobs)
        return False

    workers_here.dies = staticmethod(seen)
    fake_training.errors[CELLS[0].key] = RuntimeError("CUDA out of memory. Tried to allocate")
    assert "out of memory" in campaign.run_cells(CELLS, Store(tmp_path), HERE, 2)[CELLS[0].key]
    assert trained(fake_training).count("2") == 2
    assert parts == [2, 1]


def test_when_time_is_up_no_cell_is_begun_and_the_next_call_goes_on(
    tmp_path: Path, fake_training: FakeTraining, workers_here: type[HereWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    began, store, tally = time.monotonic(), Store(tmp_path), Tally()
    with monkeypatch.context() as patch:
        patch.setattr(side_by_side.time, "monotonic", lambda: began + 100 * len(fake_training.folders))
        assert campaign.run_cells(CELLS, store, HERE, 1, began + 150, tally=tally) == {}
    assert trained(fake_training) == ["3", "2"]
    assert (tally.cells, tally.left) == (2, 1)
    assert campaign.run_cells(CELLS, store, HERE, 1, time.monotonic() + 100) == {}
    assert all(map(store.done, CELLS))


def test_a_signal_stops_the_campaign(
    tmp_path: Path, fake_training: FakeTraining, workers_here: type[HereWorker]
) -> None:
    def struck(cell: Any, *_: Any) -> bool:
        if isinstance(cell, Cell):
            os.kill(os.getpid(), signal.SIGTERM)  # which a background job does not ignore
        return False

    workers_here.dies = staticmethod(struck)
    with pytest.raises(Interrupted):
        campaign.run_cells(CELLS, Store(tmp_path), HERE, 1, time.monotonic() + 100)
    assert len(fake_training.folders) == 1


def test_jobs_are_doubled_as_long_as_that_pays_and_memory_suffices() -> None:
    count = JobCount(1, 16)
    for rate, expected in ((0.3, 2), (0.55, 4), (0.8, 8), (0.82, 4)):
        count.look(rate, (10.0 * count.count, 1000.0))
        assert count.count == expected
    assert not count.growing
    small = JobCount(1, 16)
    small.look(0.3, (30.0, 100.0))
    small.look(0.6, (60.0, 100.0))
    assert (small.count, small.growing) == (3, True)
    small.look(0.9, (88.0, 100.0))
    assert (small.count, small.growing) == (3, False)
    blind = JobCount(1, 16)
    blind.look(0.3, None)
    assert (blind.count, blind.growing) == (1, False)


def test_memory_that_ran_out_takes_a_job_back_where_the_number_is_ours() -> None:
    own, fixed = JobCount(2, 16), JobCount(4)
    for count in (own, fixed):
        count.crowded(running=2)
    assert (own.count, own.growing, fixed.count) == (1, False, 4)


def test_devices_share_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [torch.device("cuda", n) for n in (0, 1)]
    new = Machine("GPU", {})
    assert [count.count for count in job_counts(5, gpus, 1, new)] == [3, 2]
    monkeypatch.setattr("holdfast_studies.job_count.cores", lambda: 8)
    assert [(count.count, count.growing) for count in job_counts(None, gpus, 1, new)] == [(1, True)] * 2
    for settled in (True, False):
        known = job_counts(None, gpus[:1], 1, Machine("GPU", {}, 3, settled))
        assert [(count.count, count.growing) for count in known] == [(3, not settled)]
    assert job_counts(None, [torch.device("cpu")], 4, new)[0].count <= 2


def test_auto_on_a_gpu_grows_with_what_logs_say(
    tmp_path: Path, workers_here: type[HereWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trainings are fake and slow: each look finds two more lines in every log, at a rate that halves at four jobs."""
    cells = [dataclasses.replace(CELLS[0], seed=n) for n in range(8)]
    monkeypatch.setattr(workers_here, "begin", lambda self, work, cell, *_: None)
    store, tally = Store(tmp_path), Tally()
    monkeypatch.setattr(side_by_side, "gpu_memory", lambda device: (1.0, 100.0))
    monkeypatch.setattr(side_by_side, "job_counts", lambda *_: [JobCount(1, 16)])
    seen: list[int] = []

    def look(pipes: list[Any], timeout: float) -> list[Any]:
        if not seen or seen[-1] != len(pipes):
            seen.append(len(pipes))
        for task in work.tasks:
            log = store.run(task.cell.job, task.cell.seed) / "metrics.jsonl"
            log.parent.mkdir(parents=True, exist_ok=True)
            old = len(log.read_text().splitlines()) if log.exists() else 0
            speed = 100.0 if len(work.tasks) < 4 else 50.0
            lines = [{"step": old + n, "passed": 112.0, "images_per_second": speed} for n in (1, 2)]
            with log.open("a") as handle:
                handle.write("".join(json.dumps(line) + "\n" for line in lines))
        return []

    monkeypatch.setattr(side_by_side, "wait", look)
    pending = Pending(cells, store, HERE)
    clock = itertools.count()
    monkeypatch.setattr(side_by_side.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(side_by_side.CellRunner, "_look_at_machine", lambda *_: None)
    work = side_by_side.CellRunner(pending, lambda *_: None, HERE, [torch.device("cpu")], None, 60.0, tally)
    work.run()
    assert seen == [1, 2, 4]
    assert work.counts[0].count == 2, "twice as many jobs at half the speed did not pay"


def test_what_a_machine_can_do_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("holdfast_studies.ceilings.SECONDS", 0.01)
    assert measure_ceiling(("conv-tiny", 16, 8), torch.device("cpu")) > 0
    rates = iter([100.0, 50.0])
    monkeypatch.setattr("holdfast_studies.ceilings.measure_ceiling", lambda *_: next(rates))
    file, wanted = tmp_path / "machine.json", ("conv-tiny", 16, 8)
    first = look_at_machine([wanted], "cpu", file)
    assert (first.ceilings, first.jobs) == ({wanted: 100.0}, None)
    remember_jobs(first, 3, True, file)
    assert look_at_machine([wanted], "cpu", file) == dataclasses.replace(first, jobs=3, settled=True)
    both = look_at_machine([wanted, ("conv-small", None, None)], "cpu", file)
    assert both == Machine(first.name, {wanted: 100.0, ("conv-small", None, None): 50.0})
    unbuilt = ("conv-none", 16, 8)
    file.write_text("[]")
    monkeypatch.setattr("holdfast_studies.ceilings.measure_ceiling", measure_ceiling)
    with console.shown():
        assert look_at_machine([unbuilt], "cpu", file).ceilings == {}, "what cannot be measured is left out"
    assert "conv-none" in capsys.readouterr().err


def test_a_ceiling_that_was_passed_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = iter([100.0, 900.0])
    monkeypatch.setattr("holdfast_studies.ceilings.measure_ceiling", lambda *_: next(rates))
    store, tally, wanted = Store(tmp_path), Tally(), ("conv-tiny", 16, 8)
    for ideal, expected in ((0.0, 100.0), (1e9, 100.0), (0.0, 900.0)):
        runner = side_by_side.CellRunner(Pending([], store, HERE), print, HERE, [], 1, None, tally)
        runner.machine = look_at_machine([wanted], "cpu", store.machine)
        assert runner.machine.ceilings == {wanted: expected}
        tally.start()
        tally.add(ideal, cells=1)
        runner._end(asked=False)


def test_a_tally_says_cells_per_hour_and_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 360.0])
    monkeypatch.setattr("holdfast_studies.pending.time.monotonic", lambda: next(clock))
    tally = Tally()
    tally.start(devices=2)
    tally.add(432.0, cells=4)
    tally.stop(left=1)
    assert str(tally) == "4 cells in 6 minutes, 40 cells per hour, 60 % of the ceiling"
    assert tally.plain()["share_of_ceiling"] == 0.6
    tally.add(1_000.0, 0)
    assert str(tally).endswith("faster than the ceiling that was measured, which is measured again next time")


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A service's control that writes down what it is told; it runs once it was started."""
    script = tmp_path / "bin" / mps.CONTROL
    script.parent.mkdir()
    lines = [
        "#!/bin/sh",
        f"log={tmp_path}/said",
        'if [ "$1" = -d ]; then echo "start $CUDA_MPS_PIPE_DIRECTORY" >> $log; exit ${REFUSE:-0}; fi',
        'read order; echo "$order" >> $log; [ "$order" = quit ] || [ -n "$RUNS" ]',
    ]
    script.write_text("\n".join(lines) + "\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    return tmp_path / "said"


def test_the_service_is_started_for_the_block_and_stopped_after_it(control: Path) -> None:
    with mps.shared_gpu():
        folder = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
        assert Path(folder).is_dir()
    assert control.read_text().split("\n") == ["get_server_list", f"start {folder}", "quit", ""]
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert not Path(folder).exists()


def test_a_service_that_runs_is_used_and_left_alone(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNS", "yes")
    with mps.shared_gpu():
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert control.read_text() == "get_server_list\n"


def test_without_the_service_one_line_says_so(
    control: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REFUSE", "3")
    with console.shown(), mps.shared_gpu():
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert "quit" not in control.read_text()
    monkeypatch.setenv("PATH", "")
    with console.shown(), mps.shared_gpu():
        pass
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert all("take turns" in line for line in said)


def figures(store: Store) -> dict[str, Any]:
    """What records say, time aside."""
    found = {file.stem: json.loads(file.read_text()) for file in store.records.glob("*.json")}
    for record in found.values():
        record.pop("seconds")
        record["figures"].pop("log/seconds")
    return found


def test_two_jobs_one_stopped_in_the_middle_give_the_records_of_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, together, tally = Store(tmp_path / "alone"), Store(tmp_path / "together"), Tally()
    assert campaign.run_cells(REAL, alone, HERE) == {}
    monkeypatch.setattr(campaign, "run_cell", partial(stopped_once, tmp_path / "struck"))
    assert campaign.run_cells(REAL, together, HERE, 2, tally=tally) == {}
    assert (tmp_path / "struck").exists()
    expected = figures(alone)
    for record in expected.values():  # to rounding: what ran in this process before may decide how sums are made
        known = {key: value for key, value in record["figures"].items() if value is not None}
        record["figures"] |= {key: pytest.approx(value, rel=1e-4, abs=1e-5) for key, value in known.items()}
    assert figures(together) == expected
    assert tally.cells == 2
    assert (tally.plain()["share_of_ceiling"] or 0) > 0


@pytest.mark.slow
def test_a_worker_that_is_killed_in_the_middle_of_a_training_loses_no_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, tally = Store(tmp_path), Tally()
    monkeypatch.setattr(campaign, "run_cell", partial(stopped_once, tmp_path / "struck", killed=True))
    with console.shown():
        assert campaign.run_cells(REAL, store, HERE, 2, tally=tally) == {}
    assert "killed (out of memory?); it is begun again once" in capsys.readouterr().err
    assert all(map(store.done, REAL))
    assert tally.cells == 2


def test_a_worker_that_is_let_go_saves_what_it_does(tmp_path: Path) -> None:
    worker, file = workers.Worker(), tmp_path / "state"
    worker.begin(holding, file)
    end = time.monotonic() + 120
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.05)
    workers.let_go([worker])
    assert file.read_text() == "saved"
