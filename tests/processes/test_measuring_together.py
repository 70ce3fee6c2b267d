"""Two processes measure, embed and index what one does."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from measuring import CASES, NARROW, SMALL_BLOCK, measured, one_of_several

from holdfast.cli import main
from holdfast.metrics import base, ranks
from holdfast.models import Embedder
from holdfast.search import read_index, read_manifest
from meeting import free_port, side_by_side
from small_photos import draw_photos

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
WORLD = 2
PARQUET = importlib.util.find_spec("pyarrow") is not None
MILVUS = importlib.util.find_spec("milvus_lite") is not None


def commands(place: Path, out: Path) -> list[list[str]]:
    """Embed, index and add, into a folder."""
    model, photos, more = str(place / "model"), f"folder:{place / 'photos'}", f"folder:{place / 'more' / 'photos'}"
    device, milvus = ["--device", "cpu", "--json", "--batch", "8"], ["--milvus", str(out / "milvus.db")]
    return [
        ["embed", model, "--data", photos, "--out", str(out / "vectors.npz"), *device],
        *(
            [["embed", model, "--data", photos, "--out", str(out / "shards"), "--shard", "25", *device]]
            if PARQUET
            else []
        ),
        ["evaluate", model, "--data", photos, "--split", "all", "--out", str(out / "evaluation.json"), *device],
        ["index", model, "--data", photos, "--out", str(out / "index"), *device],
        ["index", str(out / "index"), "--add", more, "--prefix", "more/", *device],
        *(
            [
                ["index", model, "--data", photos, "--out", str(out / "far"), "--kind", "milvus", *milvus, *device],
                ["index", str(out / "far"), "--add", more, "--prefix", "more/", *milvus, *device],
            ]
            if MILVUS
            else []
        ),
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and photographs, of which no two processes have equal shares."""
    folder = tmp_path_factory.mktemp("place")
    torch.manual_seed(0)
    Embedder("conv-tiny", dim=8).save_pretrained(folder / "model")
    (folder / "more").mkdir()
    for photos in (draw_photos(folder), draw_photos(folder / "more")):
        (photos / "class-0" / "0.png").unlink()
    return folder


@pytest.fixture(scope="module")
def by_two(place: Path) -> list[dict[str, Any]]:
    out = place / "two"
    out.mkdir()
    side_by_side(one_of_several, (WORLD, free_port(), str(out), commands(place, out)), WORLD)
    return [json.loads((out / f"{rank}.json").read_text("utf-8")) for rank in range(WORLD)]


@pytest.fixture(scope="module")
def by_one(place: Path) -> Path:
    out = place / "one"
    out.mkdir()
    for words in commands(place, out):
        assert main(words) == 0
    return out


def same_values(found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    assert {key for key, value in found.items() if value is None} == {k for k, v in expected.items() if v is None}
    numbers = {key: value for key, value in expected.items() if value is not None}
    assert {key: found[key] for key in numbers} == pytest.approx(numbers, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("case", CASES)
def test_every_process_gets_the_values_of_one(
    case: str, by_two: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "BLOCK", SMALL_BLOCK)
    monkeypatch.setattr(ranks, "WIDTH", NARROW)
    expected = measured(case)
    assert 0 < expected["values"]["mAP"] < 100
    for process in by_two:
        same_values(process["found"][case]["values"], expected["values"], 1e-9)
        assert process["found"][case]["reasons"] == expected["reasons"]
    ranked = [process["found"][case]["ranked"] for process in by_two]
    assert sum(ranked) == expected["ranked"]
    assert min(ranked) > 0.3 * expected["ranked"], "the queries must be shared out"


def test_one_process_talks_and_all_end_well(by_two: list[dict[str, Any]]) -> None:
    first, second = (process["printed"] for process in by_two)
    assert all(code == 0 and json.loads(said) for code, said in first)
    assert second == [[0, ""]] * len(first)


def test_two_processes_write_the_vectors_of_one(place: Path, by_one: Path, by_two: list[dict[str, Any]]) -> None:
    with np.load(place / "two" / "vectors.npz") as found, np.load(by_one / "vectors.npz") as expected:
        assert found["ids"].tolist() == expected["ids"].tolist()
        assert len(found["vectors"]) == 59
        np.testing.assert_allclose(found["vectors"], expected["vectors"], atol=1e-5)


@pytest.mark.skipif(not PARQUET, reason="pip install 'holdfast[parquet]'")
def test_two_processes_write_the_files_of_one(place: Path, by_one: Path, by_two: list[dict[str, Any]]) -> None:
    from pyarrow import parquet

    files = sorted(file.name for file in (by_one / "shards").iterdir())
    assert sorted(file.name for file in (place / "two" / "shards").iterdir()) == files
    for name in files[:-1]:
        found, expected = (parquet.read_table(out / "shards" / name).to_pydict() for out in (place / "two", by_one))
        assert found["ids"] == expected["ids"]
        np.testing.assert_allclose(np.array(found["vectors"]), np.array(expected["vectors"]), atol=1e-5)


def test_two_processes_evaluate_as_one(place: Path, by_one: Path, by_two: list[dict[str, Any]]) -> None:
    two, one = (json.loads((out / "evaluation.json").read_text("utf-8")) for out in (place / "two", by_one))
    same_values(two["metrics"], one["metrics"], 1e-4)
    assert two["undefined"] == one["undefined"]


def test_two_processes_index_as_one(place: Path, by_one: Path, by_two: list[dict[str, Any]]) -> None:
    two, one = (read_index(folder, read_manifest(folder)) for folder in (place / "two" / "index", by_one / "index"))
    assert list(two.images.ids) == list(one.images.ids)
    assert len(two) == 118
    assert (two.images.fingerprints == one.images.fingerprints).all()
    np.testing.assert_allclose(two.vectors, one.vectors, atol=1e-5)
    np.testing.assert_allclose(two.clean, one.clean, atol=1e-4)
    assert not list((place / "two").glob(".*")), "no lock is left"


@pytest.mark.skipif(not MILVUS, reason="pip install 'holdfast[milvus]'")
def test_two_processes_fill_milvus_as_one(place: Path, by_one: Path, by_two: list[dict[str, Any]]) -> None:
    here = read_index(by_one / "index")
    for out in (place / "two", by_one):
        index = read_index(out / "far", milvus=str(out / "milvus.db"))
        assert len(index) == 118
        assert index.known(here.images.ids) == here.known(here.images.ids)
        np.testing.assert_allclose(index.vectors_of(here.images.ids), here.vectors, atol=1e-5)
        np.testing.assert_allclose(index.clean, here.clean, atol=1e-4)


@pytest.mark.parametrize("words", [["study", "E1"], ["report", "runs"], ["list", "losses"]])
def test_a_command_for_one_process_is_refused_to_several(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(words) == 2
    assert "for one process" in capsys.readouterr().err
