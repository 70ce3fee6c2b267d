"""Extras in whole runs: from a recipe, resumed, captured, in half precision, with gathered gradients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from host_reads import NoHostReads
from interruption import break_off
from regime_recipes import HM
from test_captured import Counting, assert_replayed
from test_resume_regimes import different, packages

import holdfast
from holdfast import console
from holdfast.cli import main
from holdfast.errors import RecipeError, TrainingError
from holdfast.regimes import StepContext
from holdfast.training import captured
from holdfast.training.captured import CapturedStep
from holdfast.training.logs import read_log
from holdfast.training.recipe import load_recipe
from holdfast.training.session import build_session
from holdfast.training.step import load_batch, one_step

HARD = HM | {"regime": HM["regime"] | {"destination": 0.9}}
AT: dict[str, Any] = {"regime": {"name": "at", "budget": {"eps": 0.03, "steps": 2}}, "loss": "multi-similarity"}
AWP = {"name": "awp", "gamma": 0.01}
MINED = "all tuples, mined"
CASES: dict[str, dict[str, Any]] = {
    "consistency": {**HARD, "extras": ["consistency"]},
    "rows": {**AT, "extras": [{"name": "consistency", "measure": "rows", "weight": 2}]},
    "all tuples": {**HARD, "extras": ["all-tuples"], "loss": "triplet"},
    MINED: {**HARD, "extras": ["all-tuples"]},
    "clean": {**AT, "extras": ["clean"], "accumulate": 2},
    "separate": {**AT, "extras": [{"name": "clean", "separate": True}], "ema": 0.9},
    "awp": {**HARD, "extras": [AWP], "accumulate": 2, "clip": 1.0},
    "awp groups": {**AT, "extras": ["consistency", AWP], "mining_groups": 2},
    "align": {**AT, "extras": [{"name": "grad-align", "weight": 0.2}]},
    "warm-up": {**AT, "extras": [{"name": "eps-warmup", "fraction": 0.6}]},
    "resizing": {**HARD, "extras": ["clean", {"name": "progressive-resizing", "size": 6, "fraction": 0.5}]},
    "ramp": {**HM, "regime": HM["regime"] | {"destination": {"name": "ramp", "start": 0.5, "end": 0.9}}},
}
every = pytest.mark.parametrize("change", CASES.values(), ids=CASES.keys())


@every
def test_an_interrupted_run_ends_like_an_uninterrupted_one(
    tiny: dict[str, Any], change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = {**tiny, **change, "epochs": 2}
    whole = holdfast.train(recipe, out=tmp_path / "whole")
    assert break_off(recipe, tmp_path / "cut", 7, monkeypatch).step == 4
    resumed = holdfast.train(recipe, out=tmp_path / "cut")
    assert different(packages(whole.folder), packages(resumed.folder)) == []
    assert whole.evaluation["metrics"] == resumed.evaluation["metrics"]


@every
def test_replayed_steps_are_the_steps(tiny: dict[str, Any], change: dict[str, Any]) -> None:
    assert_replayed(tiny | change)


@pytest.mark.parametrize("change", [change for name, change in CASES.items() if name != MINED])
def test_a_step_reads_nothing(tiny: dict[str, Any], change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    tiny |= change | {"optimizer": {"name": "sgd", "lr": 0.01}}
    session = build_session(load_recipe(tiny), "cpu")
    context = StepContext(session.model, session.criterion, session.accelerator, 0)
    monkeypatch.setattr("holdfast.attacks.forward.Lagged.ask", lambda self, question: False)
    rows = next(iter(session.batches))
    for step in range(2):
        context.start(step)
        batch = load_batch(session, context, rows)
        if step == 0:
            one_step(session, context, batch, update=True)
        else:
            with NoHostReads():
                one_step(session, context, batch, update=True)


def test_steps_are_captured_when_attacks_have_grown(tiny: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    tiny |= AT | {"extras": [{"name": "eps-warmup", "fraction": 0.5}]}
    session = build_session(load_recipe(tiny), "cpu")
    context = StepContext(session.model, session.criterion, session.accelerator, 0, total=20)
    recorder = Counting()
    learn = CapturedStep(session, context, recorder)
    counts = []
    with console.shown():
        for step in range(16):
            context.start(step)
            learn(load_batch(session, context, next(iter(session.batches))), update=True)
            counts.append(recorder.replayed)
    assert counts[9 + captured.WARM - 1] == 0
    assert counts[-1] > 0
    assert capsys.readouterr().err.count("not captured as CUDA graphs yet") == 1


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_all_of_them_from_the_command_line(tiny: dict[str, Any], precision: str, tmp_path: Path) -> None:
    tiny |= {"model": tiny["model"] | {"size": 8, "canvas": 8}, "epochs": 1, "log_every": 1, "precision": precision}
    plain = holdfast.train({**tiny, "precision": "float32"}, out=tmp_path / "teacher")
    tiny |= HARD
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(tiny))
    listed = f"[all-tuples, consistency, {{name: teacher, model: {plain.folder}}}, clean, eps-warmup, awp]"
    out = tmp_path / "run"
    assert main(["train", str(file), "--out", str(out), "--set", f"extras={listed}", "--json"]) == 0
    lines = [line for line in read_log(out / "metrics.jsonl") if "loss" in line]
    keys = ("regime", "extra/consistency", "extra/teacher", "extra/clean")
    assert lines
    for line in lines:
        assert line["loss"] == pytest.approx(sum(line[key] for key in keys), rel=1e-4)
    words = json.loads((out / "evaluation.json").read_text())["regime"]
    assert "clean images in the loss" in words
    stored = yaml.safe_load((out / "recipe.yaml").read_text())["extras"]
    assert [extra["name"] for extra in stored] == ["all-tuples", "consistency", "teacher", "clean", "eps-warmup", "awp"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"extras": ["consistency"]}, "adversarial images"),
        ({**AT, "extras": ["consistensy"]}, "consistency"),
        ({**AT, "extras": [{"name": "clean", "wieght": 2}]}, "weight"),
        ({**AT, "extras": [AWP], "loss": {"name": "multi-similarity", "memory": 64}}, "memory"),
        ({**AT, "extras": [AWP], "loss": {"name": "trimmed", "loss": {"name": "triplet", "memory": 64}}}, "memory"),
        ({**AT, "extras": ["grad-align"], "loss": {"name": "triplet", "memory": 64}}, "memory"),
        ({**AT, "extras": ["grad-align"], "loss": "circle"}, "derivative"),
        ({**AT, "extras": ["grad-align"], "loss": "proxy-nca"}, "proxy-nca has no derivative in torch"),
        ({**AT, "extras": ["grad-align"], "loss": {"name": "trimmed", "loss": "circle"}}, "derivative"),
        ({**AT, "extras": [{"name": "teacher", "model": "own.py:net"}]}, "run code"),
        ({**AT, "extras": [{"name": "teacher", "model": "t", "keeps": "cosines"}]}, "cosines"),
    ],
)
def test_what_cannot_be_is_refused_at_once(tiny: dict[str, Any], change: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        load_recipe(tiny | change)


def test_a_teacher_of_another_size_is_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    small = {"model": tiny["model"] | {"size": 16, "canvas": 16}, "epochs": 1}
    plain = holdfast.train(tiny | small, out=tmp_path / "t")
    recipe = load_recipe(tiny | AT | {"extras": [{"name": "teacher", "model": str(plain.folder)}]})
    with pytest.raises(RecipeError, match="16 px"):
        build_session(recipe, "cpu")


def test_embeddings_of_another_length_cannot_be_kept(tiny: dict[str, Any], tmp_path: Path) -> None:
    plain = holdfast.train(tiny | {"model": tiny["model"] | {"dim": 6}, "epochs": 1}, out=tmp_path / "t")
    kept = {"name": "teacher", "model": str(plain.folder)}
    with pytest.raises(RecipeError, match="has 6 dims"):
        build_session(load_recipe(tiny | AT | {"extras": [kept | {"keeps": "embeddings"}]}), "cpu")
    build_session(load_recipe(tiny | AT | {"extras": [kept]}), "cpu")


def test_a_run_goes_on_with_the_same_teacher_only(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in (0, 1):
        holdfast.train(tiny | {"epochs": 1}, out=tmp_path / f"teacher{seed}", seed=seed)
    place = tmp_path / "teacher"
    place.symlink_to(tmp_path / "teacher0")
    recipe = tiny | HM | {"extras": [{"name": "teacher", "model": str(place)}], "epochs": 2}
    whole = holdfast.train(recipe, out=tmp_path / "whole")
    break_off(recipe, tmp_path / "cut", 7, monkeypatch)
    place.unlink()
    place.symlink_to(tmp_path / "teacher1")
    with pytest.raises(TrainingError, match="teacher"):
        holdfast.train(recipe, out=tmp_path / "cut")
    place.unlink()
    place.symlink_to(tmp_path / "teacher0")
    resumed = holdfast.train(recipe, out=tmp_path / "cut")
    assert different(packages(whole.folder), packages(resumed.folder)) == []
