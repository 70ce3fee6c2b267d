"""A campaign in one file: what fits, what does not, and going on from it elsewhere."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from fake_training import FakeTraining, evaluation_of, fake_training

from holdfast import console
from holdfast.errors import HoldfastError
from holdfast.training.folder import TrainingFolder
from holdfast_studies import campaign
from holdfast_studies.bundle import MIB, take_bundle, write_bundle
from holdfast_studies.expected import begun
from holdfast_studies.jobs import AuditMeasure, Cell, Training
from holdfast_studies.running import Places
from holdfast_studies.store import Store

__all__ = ["fake_training"]

HERE = Places(device="cpu")
DONE, AUDITED, OPEN = (
    Cell(arm=f"{n}", job=Training(recipe="pocket", settings={"epochs": n}, measures=measures), seed=0)
    for n, measures in ((1, ()), (2, (AuditMeasure(limit=10),)), (3, ()))
)
CELLS = [DONE, AUDITED, OPEN]


def run_of(store: Store, cell: Cell) -> TrainingFolder:
    assert isinstance(cell.job, Training)
    return TrainingFolder(store.run(cell.job, cell.seed))


def put(file: Path, size: int = 10) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(size))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A campaign in the middle: one cell done, one whose model is to be audited, one that trains."""
    found = Store(tmp_path / "here" / "pocket")
    for cell, size in ((DONE, 3 * MIB), (AUDITED, 2 * MIB)):
        run = run_of(found, cell)
        put(run.model / "model.safetensors", size)
        put(run.last / "model.safetensors", size)
        put(run.checkpoints / "000000009" / "tensors.safetensors", 3 * size)
        run.metrics.write_text("")
        run.evaluation.write_text(json.dumps(evaluation_of(1.0)))
    found.write(DONE, {"figures": {"R@1": 1.0}, "measures": {}})
    found.write(AUDITED, {"figures": {"R@1": 1.0}, "measures": {}})
    run = run_of(found, OPEN)
    put(run.checkpoints / "000000004" / "tensors.safetensors", MIB)
    put(run.checkpoints / "000000005" / "tensors.safetensors", MIB)
    put(found.audit(AUDITED.job, 0, AUDITED.job.measures[0]) / "artifacts" / "block", 100)  # type: ignore[arg-type]
    put(found.machine, 2)
    found.machine.write_text("{}")
    return found


def held(file: Path) -> set[str]:
    with tarfile.open(file) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def names(store: Store, *cells: Cell) -> list[str]:
    return [run_of(store, cell).folder.name for cell in cells]


def test_what_is_needed_to_go_on_comes_before_what_is_finished(
    tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    done, audited, under_way = names(store, DONE, AUDITED, OPEN)
    file = tmp_path / "all.tar.gz"
    write_bundle(file, store, CELLS)
    found = held(file)
    assert f"runs/{under_way}/checkpoint/000000005/tensors.safetensors" in found
    assert not any("000000004" in name or "/last/" in name or "000000009" in name for name in found)
    assert {f"runs/{name}/model/model.safetensors" for name in (done, audited)} <= found
    with console.shown():
        for limit, models in ((4, {audited}), (2, set()), (6, {audited}), (7, {audited, done})):
            write_bundle(file, store, CELLS, limit)
            assert file.stat().st_size <= limit * MIB
            kept = {name.split("/")[1] for name in held(file) if "/model/" in name}
            assert kept == models, limit
            assert {f"cells/{cell.key}.json" for cell in (DONE, AUDITED)} <= held(file)
            assert any(name.startswith("audits/") for name in held(file))
            said = capsys.readouterr().err
            assert all((name in said) == (name not in models) for name in (done, audited))
            assert under_way not in said


def test_records_are_there_however_low_the_limit(tmp_path: Path, store: Store) -> None:
    write_bundle(tmp_path / "b.tar.gz", store, CELLS, limit=0)
    assert held(tmp_path / "b.tar.gz") == {*(f"cells/{cell.key}.json" for cell in (DONE, AUDITED)), "machine.json"}


def test_a_campaign_goes_on_on_an_empty_machine(tmp_path: Path, store: Store, fake_training: FakeTraining) -> None:
    write_bundle(tmp_path / "b.tar.gz", store, CELLS, 4)
    there = Store(tmp_path / "there" / "pocket")
    take_bundle(tmp_path / "b.tar.gz", there)
    assert [there.done(cell) for cell in CELLS] == [True, False, False]
    assert there.audit(AUDITED.job, 0, AUDITED.job.measures[0]).is_dir()  # type: ignore[arg-type]
    assert campaign.run_cells(CELLS, there, HERE) == {}
    assert fake_training.folders == names(there, OPEN), "what is trained is not trained again"
    assert all(map(there.done, CELLS))
    assert not (there.folder / ".bundle").exists()


def test_tar_unpacks_it_too(tmp_path: Path, store: Store) -> None:
    write_bundle(tmp_path / "b.tar.gz", store, CELLS)
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "xf", "b.tar.gz", "-C", "out"], cwd=tmp_path, check=True)
    there = Store(tmp_path / "out" / "pocket")
    assert there.done(DONE)
    assert there.trained(AUDITED.job, 0)  # type: ignore[arg-type]


def test_the_run_that_is_further_stays(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "b.tar.gz"
    write_bundle(file, store, CELLS)
    there = Store(tmp_path / "there" / "pocket")
    put(run_of(there, OPEN).checkpoints / "000000003" / "tensors.safetensors")
    put(run_of(there, DONE).checkpoints / "000000099" / "tensors.safetensors")
    take_bundle(file, there)
    assert (run_of(there, OPEN).checkpoints / "000000005").is_dir()
    assert run_of(there, DONE).finished() is not None
    put(run_of(there, OPEN).checkpoints / "000000006" / "tensors.safetensors")
    take_bundle(file, there)
    assert (run_of(there, OPEN).checkpoints / "000000006").is_dir()


def test_the_run_that_comes_first_is_carried_as_long_as_it_is_needed(tmp_path: Path) -> None:
    """Where it is under way, and where it is finished and the run that starts from it is not."""
    file, here, there = tmp_path / "b.tar.gz", Store(tmp_path / "a" / "pocket"), Store(tmp_path / "b" / "pocket")
    assert isinstance(OPEN.job, Training)
    ours, theirs = run_of(here, OPEN), run_of(there, OPEN)
    first, taken = TrainingFolder(ours.first), TrainingFolder(theirs.first)
    put(first.checkpoints / "000000007" / "tensors.safetensors")
    assert begun(OPEN, here)
    write_bundle(file, here, CELLS)
    take_bundle(file, there)
    assert (taken.checkpoints / "000000007").is_dir()
    assert begun(OPEN, there)
    put(first.model / "model.safetensors")
    first.evaluation.write_text(json.dumps(evaluation_of(1.0)))
    put(ours.checkpoints / "000000002" / "tensors.safetensors")
    write_bundle(file, here, CELLS)
    take_bundle(file, there)
    assert (theirs.checkpoints / "000000002").is_dir()
    assert taken.finished() is not None
    assert taken.model.is_dir()
    assert not taken.checkpoints.exists()
    shutil.rmtree(ours.first)
    put(ours.model / "model.safetensors")
    ours.evaluation.write_text(json.dumps(evaluation_of(1.0)))
    write_bundle(file, here, CELLS)
    take_bundle(file, there)
    assert theirs.finished() is not None
    assert not taken.folder.exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("pocket/runs/../../../out", tarfile.REGTYPE),
        ("/pocket/cells/a.json", tarfile.REGTYPE),
        ("pocket/cells/a.json", tarfile.SYMTYPE),
        ("paper/cells/a.json", tarfile.REGTYPE),
        ("pocket/other", tarfile.REGTYPE),
        ("pocket", tarfile.REGTYPE),
    ],
)
def test_a_strangers_bundle_writes_nothing_else(name: str, kind: bytes, tmp_path: Path) -> None:
    file, there = tmp_path / "b.tar.gz", Store(tmp_path / "there" / "pocket")
    with tarfile.open(file, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.size = kind, "/etc/passwd", 2 if kind == tarfile.REGTYPE else 0
        archive.addfile(member, io.BytesIO(b"{}"))
    with pytest.raises(HoldfastError, match="no part of pocket studies"):
        take_bundle(file, there)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["b.tar.gz"]


def test_a_file_that_is_no_bundle_is_refused(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "b.tar.gz"
    file.write_text("nothing")
    with pytest.raises(HoldfastError, match="no whole bundle"):
        take_bundle(file, store)
    write_bundle(file, store, [dataclasses.replace(DONE)])
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(HoldfastError, match="no whole bundle"):
        take_bundle(file, store)
