from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli import main
from holdfast.cli.audit import default_audit_folder
from holdfast.cli.evaluate import metrics_table
from holdfast.errors import HoldfastError, RecipeError
from holdfast.training.folder import TrainingFolder
from holdfast.training.recipe import load_recipe


@pytest.mark.parametrize("content", [b'{"schema": 1, "met', b"", b"\xff\xfe", b"[]"])
def test_a_damaged_evaluation_means_that_the_run_is_not_finished(tmp_path: Path, content: bytes) -> None:
    run = TrainingFolder(tmp_path)
    run.evaluation.write_bytes(content)
    assert run.finished() is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"name": "folder", "root": "nowhere"}}, "nowhere"),
        ({"batch": {"classes": 400, "per_class": 3}}, "400"),
        ({"start": {"batch": {"classes": 400, "per_class": 3}}}, "400"),
    ],
)
def test_a_run_that_cannot_begin_leaves_nothing(
    tiny: dict[str, Any], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(HoldfastError, match=message):
        holdfast.train({**tiny, **change}, out=tmp_path / "new" / "run")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(HoldfastError, match=message):
        holdfast.train({**tiny, **change}, out=tmp_path / "run")
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_one_class_to_train_on_is_refused(tiny: dict[str, Any], photos: Path, tmp_path: Path) -> None:
    for number in range(2, 12):
        shutil.rmtree(photos / f"class-{number}")
    tiny["data"] = {"name": "folder", "root": str(photos)}
    with pytest.raises(HoldfastError, match="one class is left to train on beside those of test, and"):
        holdfast.train(tiny, out=tmp_path / "run")


WHOLE = {"metrics": {"R@1": 50.0, "mAP": None, "collapsed": False}, "undefined": {"mAP": "too few"}, "skipped": []}
WHOLE |= {"images": 12, "split": "test"}
BENT: list[dict[str, Any]] = [
    {"metrics": [1]},
    {"metrics": {"R@1": "50"}},
    {"metrics": {"R@1": [50.0]}},
    {"metrics": {"R@1": 10**400}},
    {"metrics": {"R@1": float("nan")}},
    {"undefined": [1]},
    {"undefined": {"mAP": {}}},
    {"skipped": None},
    {"skipped": 3},
    {"images": "12"},
    {"images": True},
    {"images": 10**400},
    {"split": None},
]


@pytest.mark.parametrize("wrong", [*BENT, *({key: ...} for key in WHOLE)], ids=lambda wrong: str(wrong)[:30])
def test_an_evaluation_of_another_kind_means_the_same(tmp_path: Path, wrong: dict[str, Any]) -> None:
    run = TrainingFolder(tmp_path)
    run.evaluation.write_text(json.dumps(WHOLE))
    assert run.finished() == WHOLE
    assert "too few" in metrics_table(WHOLE)
    run.evaluation.write_text(json.dumps({key: value for key, value in {**WHOLE, **wrong}.items() if value is not ...}))
    assert run.finished() is None


def test_a_run_whose_evaluation_is_another_document_finishes_again(
    tiny: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(load_recipe({**tiny, "epochs": 1}).yaml())
    words = ["train", str(recipe), "--out", str(tmp_path / "run"), "--device", "cpu"]
    assert main(words) == 0
    first, evaluation = capsys.readouterr().out, TrainingFolder(tmp_path / "run").evaluation
    before = json.loads(evaluation.read_text())
    for wrong in ({}, {"metrics": [1]}):
        evaluation.write_text(json.dumps(wrong))
        assert main(words) == 0
        assert capsys.readouterr().out == first
        assert json.loads(evaluation.read_text()) == before


def test_a_strangers_evaluation_cannot_steer_the_terminal() -> None:
    shown = metrics_table({**WHOLE, "split": "\x1b[2J", "undefined": {"mAP": "\x1b]0;owned\x07\ud800"}})
    assert shown.replace("\n", "").isprintable()
    shown.encode()


@pytest.mark.parametrize("content", [b"", b"a: [", b"\xff\xfe", b"- 1"])
def test_a_damaged_recipe_is_told_in_one_line(tiny: dict[str, Any], tmp_path: Path, content: bytes) -> None:
    run = TrainingFolder(tmp_path)
    run.checkpoints.mkdir()
    run.recipe_file.write_bytes(content)
    with pytest.raises(RecipeError, match=r"recipe\.yaml is empty or damaged; give another --out") as caught:
        run.open(load_recipe(tiny))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["checkpoint", "checkpoint-good"])
def test_checkpoints_are_not_kept_through_a_link(tiny: dict[str, Any], tmp_path: Path, name: str) -> None:
    (tmp_path / "outside" / "000000001").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(HoldfastError, match="a link that leads out of"):
        TrainingFolder(tmp_path / "run").open(load_recipe(tiny))
    assert [place.name for place in (tmp_path / "run").iterdir()] == [name]


def test_another_way_to_write_a_path_is_the_same_run(
    tiny: dict[str, Any], photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos.parent)
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(load_recipe({**tiny, "epochs": 1, "batch": {"classes": 3, "per_class": 3}}).yaml())
    words = ["train", str(recipe), "--out", str(tmp_path / "run"), "--device", "cpu"]
    for written in (photos.name, f"{photos.name}/", f"./{photos.name}", str(photos)):
        assert main([*words, "--data", f"folder:{written}"]) == 0
        assert default_audit_folder(str(tmp_path / "run"), f"folder:{written}") == str(tmp_path / "run")
    other = photos.with_name("other")
    other.mkdir()
    assert main([*words, "--data", f"folder:{other}"]) == 2
    assert default_audit_folder(str(tmp_path / "run"), f"folder:{other}") != str(tmp_path / "run")
