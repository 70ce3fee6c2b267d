from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from reported_runs import run_folder

from holdfast import train
from holdfast.cli import main


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe: dict[str, Any] = {
        "data": {"name": "glyphs", "characters": 24, "per_class": 4, "validation": 0.25},
        "model": {"backbone": "conv-tiny", "dim": 8},
        "batch": {"classes": 4, "per_class": 2},
        "loss": "triplet",
        "epochs": 1,
    }
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(recipe, out=folder, device="cpu")
    return folder


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["report", *arguments, "--device", "cpu", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_run_becomes_a_page(trained: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = report(capsys, str(trained), "--limit", "8")
    page = trained / "report.html"
    assert found["report"] == str(page)
    assert found["bytes"] == page.stat().st_size < 8_000_000
    assert set(found["missing"]) == {"Ten attacks"}  # it was not audited
    assert "<img" in page.read_text("utf-8")

    exhibits = trained / "artifacts" / "exhibits.json"
    before = exhibits.stat().st_mtime_ns
    report(capsys, str(trained), "--no-images", "--out", str(tmp_path / "private" / "page.html"))
    assert "<img" not in (tmp_path / "private" / "page.html").read_text("utf-8")
    assert exhibits.stat().st_mtime_ns == before  # nothing had changed, so nothing was attacked again
    report(capsys, str(trained), "--refresh", "--limit", "4")
    assert exhibits.stat().st_mtime_ns > before


def test_without_its_data_a_run_still_has_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_folder(tmp_path)  # names a model that is not there
    (run / "artifacts" / "exhibits.json").unlink()
    found = report(capsys, str(run))
    assert found["not_collected"]
    assert "Searches" in found["missing"]
    assert main(["report", str(run)]) == 0
    assert "nothing could be collected" in capsys.readouterr().out


def test_not_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "neither a run nor an audit" in error
    assert error.count("\n") == 1
