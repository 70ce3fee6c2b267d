"""The GPU benchmark says what it measures, keeps its rows, and runs anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ceiling
import gpu
import gpu_tables
import pytest
import torch
from ceiling import passes_of

SMALL = {"backbone": "test_resnet", "device": "cpu", "size": 32, "batch": 12, "dim": 8, "large": 4}
ATTACKS = {"attacked": 4, "chunk": 4, "steps": 1, "repeats": 1}


def line(**options: object) -> list[str]:
    return [word for name, value in {**SMALL, **options}.items() for word in (f"--{name}", str(value))]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether something is compiled makes no difference to what is measured."""
    monkeypatch.setattr(torch, "compile", lambda call, **_: call)
    monkeypatch.setattr(gpu, "GALLERY", 118)


def run(file: Path, *rows: str) -> dict[str, dict[str, Any]]:
    gpu.main([*line(**ATTACKS, json=file), "--rows", *rows])
    return {row["row"]: row for row in json.loads(file.read_text())["rows"]}


@pytest.mark.usefixtures("eager")
def test_rows_have_both_ceilings_and_a_second_run_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    first = run(file, "standard", "ers")
    for name in ("standard", "ers"):
        row = first[name]
        assert "error" not in row, row
        assert row["share"] == pytest.approx(row["ceiling"] / row["ours"], rel=0.01)
        assert row["ratio"] == pytest.approx(row["peers"] / row["ours"], rel=0.01)
        assert {"share_512", "share_512_blocked"} <= row.keys()
    again = run(file, "standard", "ers", "mdprop")
    assert again["standard"] == first["standard"], "what is there is not measured again"
    assert again["mdprop"]["passes"] == 5


@pytest.mark.usefixtures("eager")
def test_a_row_that_fails_loses_no_other_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "gpu.json"
    with monkeypatch.context() as patch:
        patch.setattr(gpu.peers, "_update", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))
        assert "out of memory" in run(file, "standard")["standard"]["error"]
    assert "error" not in run(file, "standard")["standard"]
    with pytest.raises(SystemExit, match="batch"):
        gpu.main(line(batch=14, json=file))


@pytest.mark.usefixtures("eager")
def test_the_first_step_is_that_of_a_new_process(capsys: pytest.CaptureFixture[str]) -> None:
    gpu.main(line(first="standard"))
    row = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert row["seconds"] > 0
    assert row["misses"] == 0


def test_tables_show_what_files_hold_and_leave_the_rest_of_the_page(tmp_path: Path) -> None:
    standard = {"row": "standard", "ours": 0.005, "peers": 0.02, "ratio": 4.0, "ceiling": 0.0044, "share": 0.88}
    first = {"row": "first", "ours": 6.1, "each": {"hm": {"seconds": 6.1, "graphs": 3}}}
    rows = [{**standard, "share_512": 0.4, "share_512_blocked": 0.3}, {"row": "hm", "error": "out of memory"}, first]
    (tmp_path / "gpu-resnet18.json").write_text(json.dumps({"backbone": "resnet18", "rows": rows}))
    page = tmp_path / "gpu.md"
    page.write_text(f"before\n{gpu_tables.BEGIN}\nold\n{gpu_tables.END}\nafter\n")
    gpu_tables.update(tmp_path)
    written = page.read_text()
    assert "| standard | 20.0 ms | 5.0 ms | 4.0 | 4.4 ms | 88 % | ≥ 80 % | 40 % | 30 % |" in written
    assert "| ResNet-18 | – | 6.1 s (3 graphs) | – | ≤ 8 s |" in written
    assert written.startswith("before\n")
    assert written.endswith("after\n")
    assert "old" not in written
    gpu_tables.update(tmp_path)
    assert page.read_text() == written


def test_a_ceiling_is_the_passes_of_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(each.count * each.images for each in passes_of("hm", 112)) == 9 * 168
    assert sum(each.count * each.images for each in passes_of("act", 112)) == 8 * 112 + 168
    found = ceiling.Ceiling(lambda: pytest.fail("all are known"), torch.zeros(1, 3, 8, 8), 1)
    found.ways = {"craft 112": {"compiled": 3.0, "captured": 2.0}, "learn 112": {"compiled": 5.0}}
    assert found.of(passes_of("mdprop", 112)) == 2 * 2.0 + 3 * 5.0
