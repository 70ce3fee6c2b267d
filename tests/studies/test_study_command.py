"""`holdfast study`, from cells to a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_study import Constant, registered

from holdfast.cli import main
from holdfast.cli import study as command
from holdfast_studies import command as studies
from holdfast_studies.base import Study


@pytest.fixture(autouse=True)
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Study]:
    monkeypatch.chdir(tmp_path)
    with registered() as found:
        yield found


def run(*words: str) -> int:
    here = ["--jobs", "1"] if "--device" in words else []
    try:
        return main(["study", *here, *words])
    except SystemExit as stop:
        return int(stop.code or 0)


def states(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    capsys.readouterr()
    assert run("X9", "--list", "--json", *words) == 0
    return [cell["state"] for cell in json.loads(capsys.readouterr().out)["cells"]]


def test_from_cells_to_verdicts_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert states(capsys) == ["missing"] * 6
    assert run("x9", "--device", "cpu") == 0
    out = capsys.readouterr().out
    assert "HOLDS: high is above low" in out
    assert "2.12 ± 0.12" in out
    folder = tmp_path / "runs" / "studies" / "pocket"
    assert json.loads((folder / "X9.json").read_text())["verdicts"][0]["status"] == "holds"
    assert "✔ holds" in (folder / "results.md").read_text("utf-8")
    assert sorted(file.name for file in (folder / "figures").iterdir()) == ["X9-1.png", "X9-2.png"]
    assert states(capsys) == ["done"] * 6


def test_finished_cells_are_not_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("X9", "--seeds", "0", "--arm", "high", "--device", "cpu") == 0
    assert "not run" in capsys.readouterr().out
    record = next((tmp_path / "runs" / "studies" / "pocket" / "cells").iterdir())
    content = json.loads(record.read_text())
    next(iter(content["measures"].values()))["figures"]["value"] = 7.0
    record.write_text(json.dumps(content))
    assert run("X9", "--device", "cpu", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [cell["figures"]["constant/value"] for cell in found["studies"][0]["arms"]["high"]["cells"]] == [
        7.0,
        2.125,
        2.25,
    ]


def test_parts_of_several_machines_merge_to_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in ("1/2", "2/2"):
        assert run("X9", "--part", part, "--out", part[0], "--device", "cpu") == 0
    assert states(capsys, "--out", "1").count("done") == 3
    capsys.readouterr()
    assert run("X9", "--summary", "--merge", "1", "2/pocket", "--out", "both", "--json") == 0
    merged = json.loads(capsys.readouterr().out)["studies"][0]
    assert run("X9", "--out", "alone", "--json", "--device", "cpu") == 0
    alone = json.loads(capsys.readouterr().out)["studies"][0]
    assert merged["verdicts"] == alone["verdicts"]
    assert [len(arm["cells"]) for arm in merged["arms"].values()] == [3, 3]


def test_a_summary_runs_nothing_and_remembers_other_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("X9", "--seeds", "5", "--device", "cpu") == 0
    capsys.readouterr()
    assert run("X9", "--summary", "--json") == 0
    found = json.loads(capsys.readouterr().out)["studies"][0]
    assert [cell["seed"] for cell in found["arms"]["high"]["cells"]] == [5]
    assert found["arms"]["high"]["planned"] == [0, 1, 2]


def test_a_dataset_without_a_place_is_said_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("X9", "--scale", "paper") == 1
    out = capsys.readouterr().out
    assert not Path("runs/studies/paper/X9.json").exists()
    assert "high, seed 0: needs --place cub=DIR" in out
    assert "NOT ALL RUN: high is above low" in out
    assert states(capsys, "--scale", "paper") == ["not run; needs --place cub=DIR"] * 2
    assert states(capsys, "--scale", "paper", "--place", "cub=.") == ["missing"] * 2


def test_a_cell_that_fails_is_told_and_the_exit_code_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Constant, scene: object) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr(Constant, "__call__", broken)
    assert run("X9", "--seeds", "0", "--device", "cpu") == 1
    assert "high, seed 0: RuntimeError: no luck" in capsys.readouterr().out


def test_a_verdict_on_one_seed_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("X9", "--seeds", "0", "--device", "cpu") == 0
    assert "HOLDS (ONE SEED): high is above low" in capsys.readouterr().out


def test_records_of_another_model_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out, score in (("1", 1.0), ("2", 2.0)):
        folder = tmp_path / out / "pocket" / "cells"
        folder.mkdir(parents=True)
        (folder / "a-s0.json").write_text(json.dumps({"figures": {"R@1": score}, "measures": {}}))
    assert run("X9", "--summary", "--merge", "2", "--out", "1") == 0
    assert "a-s0.json is of another model than the record here" in capsys.readouterr().err


def test_a_bundle_is_written_and_taken_up_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run("X9", "--device", "cpu", "--seeds", "0", "--out", "a", "--bundle", "b.tar.gz", "--bundle-limit", "1") == 0
    )
    assert "2 cells in " in capsys.readouterr().out
    assert states(capsys, "--out", "c", "--bundle", "b.tar.gz") == ["done", "done", *["missing"] * 4]
    assert run("X9", "--device", "cpu", "--out", "c", "--bundle", "b.tar.gz", "--json") == 0
    assert json.loads(capsys.readouterr().out)["campaign"]["cells"] == 4


def test_gpus_are_named_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    monkeypatch.setattr(studies, "choose_device", asked.append)
    assert studies.devices_from("0,1,0") == ["cuda:0", "cuda:1"]
    assert asked[:2] == ["cuda:0", "cuda:1"]
    assert studies.devices_from(None) == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["Q7"], "unknown study 'Q7'"),
        (["X9", "--arm", "hihg"], "unknown arm 'hihg'; did you mean 'high'?"),
        (["X9", "--part", "3/2"], "--part takes N/M"),
        (["X9", "--place", "cub"], "--place takes NAME=PATH, such as cub=DIR, got 'cub'"),
        (["X9", "--place", "cbu=."], "unknown dataset 'cbu'; did you mean 'cub'?"),
        (["X9", "--place", "cub=nowhere"], "nowhere does not exist"),
        (["X9", "--weights", "resnet50=nowhere"], "nowhere is no file"),
        (["X9", "--weights", f"resnet99={__file__}"], "no arm uses ImageNet weights"),
        (["H4", "--scale", "paper", "--weights", f"resnet99={__file__}"], "no arm that was asked for begins with them"),
        (["X9", "--device", "gpu"], "unknown device 'gpu'"),
        (["all", "X9"], "`all` is every study"),
        (["X9", "--summary", "--jobs", "1"], "--jobs has no effect here"),
        (["X9", "--summary", "--place", "cub=."], "--place has no effect here"),
        (["X9", "--summary", "--devices", "cpu"], "--devices has no effect here"),
        (["X9", "--list", "--minutes", "3"], "--minutes has no effect here"),
        (["X9", "--bundle-limit", "3"], "--bundle-limit has no effect here: no --bundle is written"),
        (["X9", "--minutes", "0"], "expected a number above zero"),
        (["X9", "--jobs", "many"], "expected a whole number of 1 or more, got 'many'"),
        (["X9", "--summary", "--weights", f"resnet50={__file__}"], "--weights has no effect here"),
        (["X9", "--list", "--jobs", "2"], "--jobs has no effect here: --list runs nothing"),
        (["X9", "--scale", "huge"], "unknown scale 'huge'"),
        (["X9", "--summary", "--part", "1/2"], "--part has no effect here"),
        (["X9", "--merge", "nowhere"], "holds no cells"),
        (["X9", "--jobs", "0"], "expected a whole number of 1 or more"),
    ],
)
def test_errors_are_one_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    captured = capsys.readouterr()
    assert line in captured.err
    assert len(captured.err.strip().splitlines()) == 1


def test_studies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "studies"]) == 0
    assert "X9  High lies above low." in capsys.readouterr().out.splitlines()


def test_without_the_package_of_studies_the_command_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "PACKAGE", "not_in_a_wheel")
    for words in (["study", "A6"], ["list", "studies"]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "clone" in said
        assert said.count("\n") == 1
