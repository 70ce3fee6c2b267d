from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from holdfast.cli import main
from holdfast.locks import locked
from index_cases import small_model

parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'holdfast[parquet]'")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    small_model().save_pretrained(tmp_path / "net")
    return tmp_path / "net"


def embed(model: Path, photos: Path, out: Path, *more: object) -> int:
    words = ["embed", model, "--data", f"folder:{photos}", "--out", out, "--json", *more]
    return main([str(word) for word in words])


def read(folder: Path) -> dict[str, list[object]]:
    """All files of a folder as one table."""
    found: dict[str, list[object]] = {}
    for file in sorted(folder.glob("part-*.parquet")):
        for name, column in parquet.read_table(file).to_pydict().items():
            found.setdefault(name, []).extend(column)
    return found


def test_files_together_hold_what_one_file_does(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert embed(model, photos, tmp_path / "whole.npz") == 0
    capsys.readouterr()
    assert embed(model, photos, tmp_path / "v", "--shard", 25) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["images"], told["files"], told["kept"], told["dim"]) == (60, 3, 0, 8)
    names = [f"part-0000{n}-of-00003.parquet" for n in range(3)]
    assert sorted(file.name for file in (tmp_path / "v").iterdir()) == [*names, "shards.json"]
    whole, parts = np.load(tmp_path / "whole.npz"), read(tmp_path / "v")
    assert parts["ids"] == whole["ids"].tolist()
    assert parts["label_names"] == whole["label_names"].tolist()
    np.testing.assert_allclose(np.array(parts["vectors"]), whole["vectors"], atol=1e-6)


def test_only_what_is_missing_is_made(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert embed(model, photos, tmp_path / "v", "--shard", 25) == 0
    files = sorted((tmp_path / "v").glob("part-*"))
    files[1].unlink()
    before = {file: file.stat().st_mtime_ns for file in (files[0], files[2])}
    capsys.readouterr()
    assert embed(model, photos, tmp_path / "v", "--shard", 25) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == 2
    assert files[1].is_file()
    assert before == {file: file.stat().st_mtime_ns for file in before}


def test_vectors_of_something_else_are_not_mixed_in(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert embed(model, photos, tmp_path / "v", "--shard", 25) == 0
    small_model(seed=1).save_pretrained(tmp_path / "other")
    assert embed(tmp_path / "other", photos, tmp_path / "v", "--shard", 25) == 2
    assert "another model" in capsys.readouterr().err
    assert embed(model, photos, tmp_path / "v", "--shard", 30) == 2
    (photos / "class-1" / "1.png").unlink()
    assert embed(model, photos, tmp_path / "v", "--shard", 25) == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("mine")
    capsys.readouterr()
    assert embed(model, photos, tmp_path / "mine", "--shard", 25) == 2
    assert "something else" in capsys.readouterr().err
    (tmp_path / "v" / "shards.json").write_text("{")
    assert embed(model, photos, tmp_path / "v", "--shard", 25) == 2


def test_a_model_without_weights_is_known_by_its_vectors(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "from torch import nn\n\n\ndef one():\n    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())\n"
    (tmp_path / "nets.py").write_text(code + code.partition("\n\n\n")[2].replace("one", "other").replace("Avg", "Max"))
    one, other = tmp_path / "nets.py:one", tmp_path / "nets.py:other"
    assert embed(one, photos, tmp_path / "v", "--shard", 25, "--size", 32) == 0
    next((tmp_path / "v").glob("part-*")).unlink()
    capsys.readouterr()
    assert embed(other, photos, tmp_path / "v", "--shard", 25, "--size", 32) == 2
    assert "another model" in capsys.readouterr().err
    assert embed(one, photos, tmp_path / "v", "--shard", 25, "--size", 32) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == 2


@pytest.mark.parametrize("probe", [None, "x", [[0.0]], [[float("nan")] * 8] * 4])
def test_a_probe_that_is_none_is_another_models(
    probe: object, model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert embed(model, photos, tmp_path / "v", "--shard", 25) == 0
    about = tmp_path / "v" / "shards.json"
    told = json.loads(about.read_text())
    about.write_text(json.dumps({**told, "probe": probe}))
    assert embed(model, photos, tmp_path / "v", "--shard", 25) == 2
    assert "another model" in capsys.readouterr().err
    del told["probe"]
    about.write_text(json.dumps(told))
    assert embed(model, photos, tmp_path / "v", "--shard", 25) == 0, "one of before goes by the weights"


def test_a_second_command_in_the_folder_is_refused(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "v").mkdir()
    with locked(tmp_path / "v" / ".lock", "it"):
        assert embed(model, photos, tmp_path / "v", "--shard", 25) == 2
    assert f"{tmp_path / 'v'} is in use by process" in capsys.readouterr().err
    (tmp_path / "v" / ".lock").touch()  # as a killed command leaves it
    assert embed(model, photos, tmp_path / "v", "--shard", 25) == 0
    assert not (tmp_path / "v" / ".lock").exists()


def test_a_file_of_unreadable_images_is_empty(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for image in sorted(photos.rglob("*.png"))[:10]:
        image.write_bytes(b"no image")
    assert embed(model, photos, tmp_path / "v", "--shard", 10) == 2
    assert embed(model, photos, tmp_path / "v", "--shard", 10, "--skip-bad") == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["files"], told["skipped"]) == (6, 10)
    tables = [parquet.read_table(file) for file in sorted((tmp_path / "v").glob("part-*"))]
    assert sorted(len(table) for table in tables) == [0, 10, 10, 10, 10, 10]
    assert len({str(table.schema) for table in tables}) == 1


def test_a_killed_process_loses_one_file_at_most(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["embed", model, "--data", f"folder:{photos}", "--out", tmp_path / "v", "--shard", 1]
    running = subprocess.Popen([sys.executable, "-m", "holdfast", *map(str, words)], stderr=subprocess.DEVNULL)
    while len(list((tmp_path / "v").glob("part-*.parquet"))) < 5 and running.poll() is None:
        time.sleep(0.005)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    done = len(list((tmp_path / "v").glob("part-*.parquet")))
    assert embed(model, photos, tmp_path / "v", "--shard", 1) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["files"], told["kept"]) == (60, done)
    assert embed(model, photos, tmp_path / "whole.npz") == 0
    whole, parts = np.load(tmp_path / "whole.npz"), read(tmp_path / "v")
    assert parts["ids"] == whole["ids"].tolist()
    np.testing.assert_allclose(np.array(parts["vectors"]), whole["vectors"], atol=1e-6)
