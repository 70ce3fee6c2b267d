"""What commands print on a stranger's files cannot steer the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compared_runs import add_exhibits, make_run
from PIL import Image

from holdfast import console
from holdfast.cli import main

STEERS = "\x1b[31mred\x07\r\u202eback"


def said(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """What a command printed, harmless and with the hostile name still in it."""
    main(list(command))
    out, err = capsys.readouterr()
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(out + err)
    assert "\\x1b[31mred" in out + err
    return out + err


@pytest.fixture
def run(tmp_path: Path) -> Path:
    flag = {"name": STEERS, "level": "warning", "why": STEERS, "advice": STEERS}
    folder = make_run(tmp_path / "run", regime=STEERS, flags=[flag])
    add_exhibits(folder, 5, 0, [1, 2, 3, 4, 5, 6])
    file = folder / "artifacts" / "exhibits.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "map": None, "missing": {"map": STEERS}}))
    return folder


def test_a_report(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "not on the page: " in said(capsys, "report", str(run))


def test_a_comparison(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = make_run(tmp_path / "other")
    assert "WARNING" in said(capsys, "compare", str(run), str(other), "--out", str(tmp_path / "page.html"))


def test_a_check_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("train/a/1.png", "train/a/2.png", "test/b/2.png", f"test/b/{STEERS}.png", f"test/{STEERS}.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.linear_gradient("L").resize((8, 8)).save(tmp_path / name)
    (tmp_path / "train" / f"{STEERS}.txt").write_text("x")
    (tmp_path / f".{STEERS}").write_text("x")
    text = said(capsys, "check", "--data", f"folder:{tmp_path}")
    assert "look the same" in text
    assert "in no class folder" in text


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with console.shown():
        console.say(f"skipped: {STEERS}\nsecond line")
    assert capsys.readouterr().err == "skipped: \\x1b[31mred\\x07\\r\\u202eback\nsecond line\n"
