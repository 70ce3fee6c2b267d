"""The examples do what their first lines say."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = {
    "train_and_compare.py": "open runs/compared/compare.html",
    "audit_my_model.py": "ERS",
    "own_loss.py": "square-band",
    "own_loop.py": "AttackResult(",
}

ALONE = "own_loss.py"
"""Registers a loss, which must not reach the contract tests."""


def test_no_script_is_forgotten() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(SCRIPTS)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("name", sorted({*SCRIPTS} - {ALONE}))
def test_script_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, "--fast"])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert SCRIPTS[name] in capsys.readouterr().out


def test_script_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / ALONE), "--fast"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SCRIPTS[ALONE] in done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text("utf-8").splitlines()) < 60


@pytest.mark.slow
def test_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = json.loads((EXAMPLES / "tour.ipynb").read_text("utf-8"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), namespace)
    assert all(cell["outputs"] for cell in cells[1:]), "outputs are stored with the notebook"
    assert sum(len(json.dumps(cell["outputs"])) for cell in cells) < 100_000
