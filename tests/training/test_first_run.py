"""Recipes whose run starts from a run of its own, trained before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import holdfast
from holdfast.errors import RecipeError
from holdfast.training import captured
from holdfast.training.checkpoint import load_checkpoint
from holdfast.training.recipe import load_recipe

AT = {"regime": {"name": "at", "budget": {"eps": "8/255", "step": "4/255", "steps": 1}}}
TAUGHT = {"extras": [{"name": "teacher", "model": "start:", "weight": 2}]}
START = {"start": {"epochs": 2, "optimizer": {"lr": 0.01}}}


def weights(folder: Path, which: str = "last") -> dict[str, torch.Tensor]:
    return load_file(folder / which / "model.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_the_first_run_is_plain_and_like_the_other_in_all_else(tiny: dict[str, Any]) -> None:
    recipe = load_recipe(tiny | AT | TAUGHT | START)
    first = recipe.first()
    assert first is not None
    assert (first.regime.name, first.extras, first.start, first.epochs) == ("standard", [], None, 2)
    assert first.optimizer.plain["lr"] == 0.01
    assert first.plain()["model"] == recipe.plain()["model"]
    assert first.plain()["data"] == recipe.plain()["data"]
    assert load_recipe(tiny).first() is None
    assert load_recipe(recipe.plain()) == recipe


def test_one_command_is_two_by_hand(tiny: dict[str, Any], tmp_path: Path) -> None:
    whole = tiny | AT | TAUGHT | START
    run = holdfast.train(whole, out=tmp_path / "run")
    first = load_recipe(whole).first()
    assert first is not None
    plain = holdfast.train(first, out=tmp_path / "plain")
    assert same(weights(run.folder / "start"), weights(plain.folder))
    taught = {"extras": [{"name": "teacher", "model": str(plain.folder), "weight": 2}], "init": str(plain.folder)}
    by_hand = holdfast.train(tiny | AT | taught, out=tmp_path / "by-hand")
    assert same(weights(run.folder), weights(by_hand.folder))
    assert run.evaluation["start"]["of"] == "the model of start"
    assert "a run of its own, trained before" in (run.folder / "model" / "README.md").read_text()
    assert holdfast.train(whole, out=tmp_path / "run").evaluation == run.evaluation, "it is finished"


@pytest.mark.parametrize("part", ["start", "."])
def test_a_killed_run_goes_on_in_the_part_where_it_was(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    whole, out = tiny | AT | TAUGHT | START | {"checkpoint_every": 1}, tmp_path / "run"
    want = holdfast.train(whole, out=tmp_path / "whole")
    first = load_recipe(whole).first()
    assert first is not None
    if part != "start":
        holdfast.train(first, out=out / "start")
    real, calls = captured.one_step, iter(range(1000))

    def fails_once(*arguments: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(captured, "one_step", fails_once)
    with pytest.raises(KeyboardInterrupt):
        holdfast.train(whole, out=out)
    assert load_checkpoint(out / part / "checkpoint") is not None
    assert not (out / part / "evaluation.json").exists()
    assert same(weights(holdfast.train(whole, out=out).folder), weights(want.folder))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (START | {"init": "runs/other"}, "leave one out"),
        ({"start": {"model": {"dim": 4}}}, "model.dim is that of the run itself"),
        ({"start": {"model": None}}, "model is that of the run itself"),
        ({"start": {"seed": 4}}, "seed is that of the run itself"),
        ({"start": {"epoch": 3}}, "start: unknown key 'epoch'"),
        ({"start": {"epochs": 0}}, "epochs must be 1 or more"),
        (TAUGHT, "this recipe names none"),
    ],
)
def test_what_cannot_be_is_refused_at_once(tiny: dict[str, Any], change: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        load_recipe(tiny | AT | change)


def test_the_first_run_may_keep_batchnorm_that_the_run_itself_learns(tiny: dict[str, Any], tmp_path: Path) -> None:
    own = {"start": START["start"] | {"model": {"batchnorm": "freeze"}}}
    run = holdfast.train(tiny | AT | own, out=tmp_path / "run").folder

    def statistics(folder: Path) -> dict[str, torch.Tensor]:
        return {name: value for name, value in weights(folder).items() if name.endswith("running_mean")}

    first = load_recipe(tiny | AT | own).first()
    assert first is not None
    fresh = first.model.build().state_dict()
    assert same(statistics(run / "start"), {name: fresh[name] for name in statistics(run / "start")})
    assert not same(statistics(run), statistics(run / "start"))


def test_weights_of_a_backbone_are_those_of_the_first_run(tiny: dict[str, Any]) -> None:
    given = {"model": {"dim": 8}}
    recipe = load_recipe(tiny | AT | START | given, settings=["init=torchvision:resnet18"])
    first = recipe.first()
    assert first is not None
    assert recipe.init is None
    assert first.model.backbone == "torchvision:resnet18"
    assert first.model.weights == "imagenet"
