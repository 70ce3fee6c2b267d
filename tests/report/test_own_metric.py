"""A metric is added and shown by one file: everything else reads what it says of itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from compared_runs import make_run

from holdfast.cli import main
from holdfast.metric_info import MetricInfo, stored
from holdfast.metrics import EmbeddedSet, Metric, Values
from holdfast.metrics.base import registry
from holdfast.models import Embedder
from holdfast.report.compare_page import compare
from holdfast.report.comparison import read_comparison
from holdfast.report.page import make
from holdfast.report.tables import to_csv

MEANING = "how far the farthest image is from the mean"


class Reach(Metric):
    """Reach of an embedding."""

    def describe(self) -> dict[str, MetricInfo]:
        return {"reach": MetricInfo(MEANING, "Reach", better="lower", digits=2, shown="headline")}

    def __call__(self, data: EmbeddedSet) -> Values:
        values = Values()
        values["reach"] = float((data.embeddings - data.embeddings.mean(0)).norm(dim=1).max())
        values["untold"] = 1.5
        return values


@pytest.fixture
def runs(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[Path]:
    """Two runs whose evaluations were made by `holdfast evaluate` with a metric of the test."""
    registry.names()
    monkeypatch.setitem(registry._members, "reach", Reach)
    folders = []
    for seed in range(2):
        torch.manual_seed(seed)
        folder = make_run(tmp_path / f"run-{seed}", seed=seed)
        Embedder("conv-tiny", dim=8).save_pretrained(tmp_path / f"model-{seed}")
        words = [
            "evaluate",
            str(tmp_path / f"model-{seed}"),
            "--data",
            f"folder:{photos}",
            "--split",
            "all",
            "--device",
            "cpu",
        ]
        assert main([*words, "--out", str(folder / "evaluation.json")]) == 0
        printed = capsys.readouterr().out
        assert "reach" in printed
        assert "untold" in printed
        folders.append(folder)
    return folders


def test_a_registered_metric_is_on_the_page_and_in_the_comparison(runs: list[Path], tmp_path: Path) -> None:
    page = make(runs[0]).html
    assert MEANING in page
    assert "Reach of an embedding." in page  # of the figure that the metric does not describe
    comparison = read_comparison(runs)
    column = next(column for column in comparison.table.columns if column.key == "reach")
    assert (column.title, column.better, column.headline, column.digits) == ("Reach", "lower", True, 2)
    assert "Reach" in comparison.table.headlines().text()
    assert "untold" in to_csv(comparison.table).splitlines()[0]
    assert MEANING in compare(runs, tmp_path / "compare.html").read_text("utf-8")


def test_pages_of_described_files_need_no_torch(runs: list[Path], tmp_path: Path) -> None:
    for folder in runs:
        evaluation = json.loads((folder / "evaluation.json").read_text())
        (folder / "evaluation.json").write_text(json.dumps({**evaluation, "regime": "Learn from clean images."}))
        audit = json.loads((folder / "audit.json").read_text())
        told = {"R@1": {"percent": True}, "ERS": {"shown": "headline"}}
        (folder / "audit.json").write_text(json.dumps({**audit, "described": told}))
    code = f"""
import sys
from holdfast.report import compare, write
folders = {[str(folder) for folder in runs]!r}
pages = [write(folders[0]), compare(folders, {str(tmp_path / "c.html")!r})]
assert all("Reach" in page.read_text("utf-8") or "reach" in page.read_text("utf-8") for page in pages)
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_descriptions_of_strangers_are_checked() -> None:
    sound = {"meaning": "so", "better": "lower", "digits": 2, "shown": "table", "scale": 255}
    wrong = [{"digits": 99}, {"shown": "everywhere"}, {"better": 1}, {"scale": float("nan")}, {"title": 3}, 7, None]
    document = {"described": {"a": sound, **{f"b{i}": entry for i, entry in enumerate(wrong)}}}
    assert stored(document) == {"a": MetricInfo("so", better="lower", digits=2, scale=255)}
    assert stored({"described": 3}) == {}
    assert MetricInfo(**stored(document)["a"].plain()) == stored(document)["a"]
