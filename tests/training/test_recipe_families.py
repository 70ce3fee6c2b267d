"""The shipped recipes: one per published row, at paper and at pocket size."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

import holdfast
from holdfast import regimes
from holdfast.attacks import Budget
from holdfast.training.recipe import Recipe, load_recipe
from holdfast.training.recipe_files import about, read_plain, shipped

ADML = ["adml-a", "adml-t", "adml-u", "adml-au"]
CARS = [f"{name}-cars" for name in ADML]
PRODUCTS = ["adml-a-sop", "adml-a-inshop"]
ROTH = ["resnet50-ms", "resnet50-margin", "resnet50-triplet", *ADML, "adml-a-pixel", *CARS, *PRODUCTS]
"""In the setting of Roth et al., which ADML takes over."""

TUNED = {"resnet50-ms": "resnet50-ms-tuned", "adml-a": "adml-a-tuned"}
HM = ["hm-lga", "hm-lga-ics", "hm-semihard", "hm-gb", "hm-g2", "hm-ghalf", "act", "min-max", "est", "free-hm"]
UNDEFENDED = ["resnet18-triplet", "resnet18-triplet-random"]
ROBRANK = [*HM[:-1], "hm-lga-ics-sop", *UNDEFENDED]
"""In the setting of HM's released code."""

MDPROP = ["at", "advprop-d", "mdprop-1", "mdprop-2", "mdprop-ux", "mdprop-2-s2sd", "mdprop-released"]
MDPROP_SOP = ["advprop-d-sop", "mdprop-1-sop", "mdprop-2-sop"]
BASELINES = {"resnet50-ms-train": "train", "resnet50-ms-frozen": "freeze-statistics", "resnet50-s2sd": "train"}
"""Of MDProp's tables → what BatchNorm does."""

POCKET = {
    **{name: f"{name}-pocket" for name in (*ADML, *HM, *MDPROP, "tride")},
    "resnet18-triplet": "triplet-pocket",
    "resnet50-ms": "pocket",
    "resnet50-s2sd": "s2sd-pocket",
}
"""Recipes at paper size, and the same at pocket size."""

ONE_STEP = dataclasses.asdict(Budget(eps=0.01, steps=1, start="uniform", start_radius=0.0005, units="normalized"))
"""Of MDProp's released code."""

SCALE = {
    *("data", "model", "batch", "mining_groups", "augment", "optimizer", "schedule", "epochs", "evaluate_every"),
    "test_curve",
}
"""What a small net, which starts from nothing, and small pictures need otherwise."""

PAIRED = {"anchors", "variant"}
"""Published batches are consecutive pairs; small ones have four images per class, and each is an anchor."""

SIZES = {*PAIRED, "dims", "weight", "feature_weight", "feature_after", "pooling", "reduction"}
"""And widths of heads, and how much they and the features teach, which must learn themselves first; the average over
mined anchors is that of the papers' framework."""


def without(keys: set[str], plain: Any) -> Any:
    """Plain data less some keys, at any depth."""
    if isinstance(plain, dict):
        return {key: without(keys, value) for key, value in plain.items() if key not in keys}
    return [without(keys, value) for value in plain] if isinstance(plain, list) else plain


def at(name: str, path: str) -> Any:
    """A value of a resolved recipe."""
    value: Any = load_recipe(name).plain()
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


@pytest.mark.parametrize("name", shipped())
def test_it_resolves_and_repeats_itself(name: str) -> None:
    recipe = load_recipe(name)
    plain = yaml.safe_load(recipe.yaml())
    assert "base" not in plain
    assert load_recipe(plain) == recipe
    assert load_recipe(plain).digest() == recipe.digest()


@pytest.mark.parametrize("name", shipped())
def test_its_summary_says_what_it_is_and_where_it_runs(name: str) -> None:
    line = about(name).summary
    assert 20 < len(line) < 120
    assert line.endswith(".")
    small = (
        name in POCKET.values()
        or name in ("gs-pocket", "robust-pocket", "eps-mnist", "fitted-head")
        or name.startswith("demo-")
    )
    assert ("needs a GPU" in line, "two CPU cores" in line) == (not small, small)


def test_no_recipe_is_another_again() -> None:
    plain = {name: load_recipe(name).plain() for name in shipped()}
    assert [pair for pair in combinations(plain, 2) if plain[pair[0]] == plain[pair[1]]] == []
    summaries = [about(name).summary for name in shipped()]
    assert len(set(summaries)) == len(summaries)


@pytest.mark.parametrize(("paper", "pocket"), POCKET.items())
def test_both_sizes_are_one_method(paper: str, pocket: str) -> None:
    large, small = load_recipe(paper).plain(), load_recipe(pocket).plain()
    assert without({"budget", *PAIRED}, large["regime"]) == without({"budget", *PAIRED}, small["regime"])
    assert without(SIZES, large["loss"]) == without(SIZES, small["loss"])
    assert {key for key in large if large[key] != small[key]} <= SCALE | {"regime", "loss"}


def test_every_regime_has_a_recipe_of_either_size() -> None:
    for sizes in (POCKET.keys(), POCKET.values()):
        assert {load_recipe(name).regime.name for name in sizes} == set(regimes.names())


@pytest.mark.parametrize(
    ("names", "path", "value"),
    [
        (ROTH, "data.validation", 0),
        (ROTH, "model.backbone", "resnet50.tv_in1k"),
        (ROTH, "model.dim", 128),
        (ROTH, "model.size", 224),
        (ROTH, "model.canvas", 256),
        (ROTH, "model.fit", "crop"),
        (ROTH, "model.batchnorm", "freeze-statistics"),
        (ROTH, "batch", {"classes": 56, "per_class": 2, "sampler": "classes"}),
        (ROTH, "augment.scale", [0.08, 1.0]),
        (ROTH, "augment.ratio", [pytest.approx(3 / 4), pytest.approx(4 / 3)]),
        (ROTH, "optimizer.name", "adam"),
        (ROTH, "optimizer.lr", 1e-5),
        (ROTH, "optimizer.weight_decay", 4e-4),
        (ROTH, "optimizer.loss_weight_decay", 0.0),
        (ROTH, "schedule.name", "constant"),
        (ROTH, "epochs", 100),
        (ROTH, "test_curve", True),
        ([name for name in ROTH if name not in ("resnet50-margin", "resnet50-triplet")], "loss.reduction", "mined"),
        (["resnet50-ms"], "loss.alpha", 2.0),
        (["resnet50-ms"], "loss.beta", 40.0),
        (["resnet50-ms"], "loss.base", 0.5),
        (["resnet50-ms"], "loss.miner.epsilon", 0.1),
        (["resnet50-margin"], "loss.beta", 1.2),
        (["resnet50-margin"], "optimizer.loss_lr", 5e-4),
        (["resnet50-margin", "resnet50-triplet"], "loss.margin", 0.2),
        (["resnet50-margin", "resnet50-triplet"], "loss.miner.name", "distance"),
        (["resnet50-triplet"], "loss.squared", True),
        ([*ADML, "adml-a-pixel"], "regime.weight", 0.1),
        (CARS, "regime.weight", 0.15),
        (CARS, "data.name", "cars"),
        (PRODUCTS, "regime.weight", 0.005),
        (PRODUCTS, "regime.budget", at("adml-a", "regime.budget") | {"eps": 0.01, "step": 0.003, "steps": 5}),
        ([*ADML, *CARS, *PRODUCTS], "regime.goal.reference", "joint"),
        ([*ADML, *CARS, "adml-a-pixel"], "regime.budget.eps", 0.0314),
        ([*ADML, *CARS, "adml-a-pixel"], "regime.budget.step", 0.007),
        ([*ADML, *CARS, "adml-a-pixel"], "regime.budget.steps", 7),
        ([*ADML, *CARS, *PRODUCTS, "adml-a-tuned"], "regime.budget.units", "normalized"),
        (["adml-a-pixel"], "regime.budget.units", "pixel"),
        (["adml-t", "adml-t-cars", "adml-t-pocket"], "regime.goal.margin", 0.2),
        (HM[:-1], "regime.budget.eps", pytest.approx(8 / 255)),
        (HM[:-1], "regime.budget.step", pytest.approx(1 / 255)),
        (HM[:-1], "regime.budget.steps", 8),
        (ROBRANK, "data.validation", 0),
        (ROBRANK, "model.backbone", "resnet18.tv_in1k"),
        (ROBRANK, "model.weights", "imagenet"),
        (ROBRANK, "model.dim", 512),
        (ROBRANK, "model.size", 224),
        (ROBRANK, "model.canvas", 256),
        (ROBRANK, "model.fit", "squash"),
        (ROBRANK, "augment.name", "random-crop"),
        (ROBRANK, "augment.flip", True),
        (ROBRANK, "augment.padding", 0),
        (ROBRANK, "batch", {"classes": 112, "per_class": 2, "sampler": "pairs"}),
        (ROBRANK, "mining_groups", 2),
        (ROBRANK, "loss.margin", 0.2),
        (ROBRANK, "loss.squared", False),
        (ROBRANK, "optimizer.name", "adam"),
        (ROBRANK, "optimizer.lr", 1e-5),
        (ROBRANK, "optimizer.weight_decay", 4e-4),
        (ROBRANK, "schedule.name", "constant"),
        (ROBRANK, "epochs", 75),
        (ROBRANK, "ema", None),
        (ROBRANK, "test_curve", True),
        (UNDEFENDED, "model.batchnorm", "freeze-statistics"),
        (["free-hm"], "batch", {"classes": 56, "per_class": 2, "sampler": "pairs"}),
        (HM, "loss.miner.variant", "published"),
        ([name for name in HM if name != "est"], "regime.source.variant", "published"),
        ([name for name in HM if name != "est"], "regime.source.anchors", "first"),
        ([name for name in HM if name != "est"], "model.batchnorm", "freeze-statistics"),
        (["est"], "model.batchnorm", "train"),
        (["hm-lga-ics", "hm-lga-ics-tuned"], "regime.ics", 0.5),
        (["hm-lga-ics-sop"], "regime.ics", 0.05),
        (["est"], "regime.variant", "published"),
        (["hm-lga", "hm-semihard"], "regime.ics", 0.0),
        (["act"], "regime.source.name", "random"),
        (["est", "resnet18-triplet-random"], "loss.miner.name", "random"),
        (["resnet18-triplet"], "loss.miner.name", "softhard"),
        (["mdprop-1", "mdprop-1-sop"], "regime.distributions.0.goal.targets", 3),
        (["mdprop-2", "mdprop-2-sop", "mdprop-2-s2sd", "mdprop-released"], "regime.distributions.1.goal.targets", 5),
        (["mdprop-1", "mdprop-2", "mdprop-2-sop", "mdprop-ux"], "regime.distributions.0.budget", ONE_STEP),
        (["mdprop-2", "mdprop-2-sop", "mdprop-released"], "regime.distributions.1.budget", ONE_STEP),
        (["at", "advprop-d", "advprop-d-sop"], "regime.budget", ONE_STEP),
        (["mdprop-1", "mdprop-2", "mdprop-2-sop", "advprop-d"], "regime.variant", "paper"),
        (["mdprop-released", "mdprop-released-pocket"], "regime.variant", "released"),
        (["mdprop-2", "mdprop-released", "at", "advprop-d"], "regime.statistics", "eval"),
        (["resnet50-s2sd", "mdprop-2-s2sd"], "loss.loss.reduction", "mined"),
        (["resnet50-s2sd", "mdprop-2-s2sd"], "loss.dims", [512, 1024, 1536, 2048]),
        (["resnet50-s2sd", "mdprop-2-s2sd"], "loss.weight", 50.0),
        (["resnet50-s2sd", "mdprop-2-s2sd"], "loss.feature_weight", 50.0),
        (["resnet50-s2sd", "mdprop-2-s2sd"], "loss.feature_after", 1000),
        (["resnet50-s2sd", "mdprop-2-s2sd"], "loss.pooling", "average-max"),
    ],
)
def test_published_values(names: list[str], path: str, value: Any) -> None:
    assert [at(name, path) for name in names] == [value] * len(names)


@pytest.mark.parametrize("name", [*MDPROP, *BASELINES, *MDPROP_SOP, "resnet50-ms-train-sop", "resnet50-ms-frozen-sop"])
def test_mdprop_is_the_framework_with_other_batches_length_and_batchnorm(name: str) -> None:
    framework, own = load_recipe("resnet50-ms").plain(), load_recipe(name).plain()
    products = name.endswith("-sop")
    changes = {
        "data": own["data"] | {"name": "sop", "validation": 0} if products else framework["data"],
        "model": framework["model"] | {"batchnorm": BASELINES.get(name.removesuffix("-sop"), "train")},
        "batch": {"classes": 56 if products else 32, "per_class": 2, "sampler": "classes"},
        "epochs": 125,
        "regime": own["regime"],
        "loss": own["loss"] if name.endswith("-s2sd") else framework["loss"],
    }
    assert own == framework | changes
    assert (own["regime"]["name"] == "standard") == (name.removesuffix("-sop") in BASELINES)


def test_what_is_tuned_of_hm() -> None:
    before, after = load_recipe("hm-lga-ics").plain(), load_recipe("hm-lga-ics-tuned").plain()
    changes = {
        "model": before["model"] | {"backbone": "resnet50.tv_in1k"},
        "batch": {"classes": 56, "per_class": 2, "sampler": "classes"},
        "mining_groups": 1,
        "optimizer": before["optimizer"] | {"lr": 1e-4},
        "schedule": after["schedule"],
        "ema": 0.998,
        "epochs": 50,
    }
    assert after == before | changes
    assert after["schedule"]["name"] == "cosine"


def test_tride_is_the_undefended_recipe_on_one_device_with_its_regime() -> None:
    undefended, own = load_recipe("resnet18-triplet").plain(), load_recipe("tride").plain()
    batch = {"classes": 56, "per_class": 2, "sampler": "pairs"}
    assert own == undefended | {"batch": batch, "mining_groups": 1, "regime": own["regime"]}
    default = regimes.CollapseAwareTriplets()
    assert own["regime"]["budget"] == dataclasses.asdict(default.budget)
    values = {"sharpness": 10.0, "near": 0.5, "near_margin": 0.04, "statistics": "eval"}
    assert {name: own["regime"][name] for name in values} == values
    source = {"name": "semihard", "margin": 0.2, "positives": "uniform", "anchors": "first", "variant": "published"}
    assert own["regime"]["source"] == source


@pytest.mark.parametrize(("paper", "tuned"), TUNED.items())
def test_what_is_tuned(paper: str, tuned: str) -> None:
    before, after = load_recipe(paper).plain(), load_recipe(tuned).plain()
    changes = {
        "model": before["model"] | {"dim": 512},
        "batch": {"classes": 28, "per_class": 4, "sampler": "classes"},
        "optimizer": before["optimizer"] | {"lr": 3e-5},
        "schedule": load_recipe(tuned, settings=["schedule=cosine"]).plain()["schedule"],
        "epochs": 40,
    }
    assert after == before | changes


@pytest.mark.parametrize("name", [name for name in shipped() if "budget" in read_plain(name).get("regime", {})])
def test_one_value_of_a_budget_can_be_set(name: str) -> None:
    before, after = load_recipe(name), load_recipe(name, settings=["regime.budget.steps=5"])
    assert after.regime.plain["budget"] == {**before.regime.plain["budget"], "steps": 5}


@pytest.mark.parametrize("name", ["mdprop-2", "mdprop-released-pocket"])
def test_one_value_of_a_distribution_can_be_set(name: str) -> None:
    before, after = load_recipe(name), load_recipe(name, settings=["regime.distributions.1.budget.eps=0.05"])
    first, second = before.regime.plain["distributions"]
    expected = [first, {**second, "budget": {**second["budget"], "eps": 0.05}}]
    assert after.regime.plain == {**before.regime.plain, "distributions": expected}


@pytest.mark.parametrize("name", ["hm", "at", "adml"])
def test_one_value_of_a_default_budget_can_be_set(name: str) -> None:
    default = load_recipe("triplet-pocket", settings=[f"regime={name}"]).regime.plain
    changed = load_recipe("triplet-pocket", settings=[f"regime={name}", "regime.budget.steps=4"]).regime.plain
    assert changed == {**default, "budget": {**default["budget"], "steps": 4}}


SMALL = [
    *("data={name: glyphs, characters: 40, per_class: 6}", "model.backbone=conv-tiny", "model.weights=null"),
    *("model.size=null", "model.canvas=null", "model.dim=16", "augment={name: random-crop, padding: 2}"),
    *("epochs=1", "evaluate_every=1", "log_every=1", "optimizer.lr=1e-4"),
]


def shrunk(name: str) -> Recipe:
    """A recipe's method on a few small pictures."""
    groups = load_recipe(name).mining_groups
    settings = [*SMALL, f"batch.classes={8 * groups}"]
    if load_recipe(name).loss.name == "s2sd":
        settings += ["loss.dims=[8, 12]", "loss.feature_after=1", "loss.pooling=average"]
    return load_recipe(name, settings=settings)


@pytest.mark.parametrize("name", ["resnet18-triplet", "hm-lga-ics", "mdprop-2-s2sd-pocket"])
def test_it_trains(name: str, tmp_path: Path) -> None:
    run = holdfast.train(shrunk(name), out=tmp_path / "run", device="cpu")
    assert run.evaluation["metrics"]["R@1"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [*POCKET, *POCKET.values()])
def test_all_train(name: str, tmp_path: Path) -> None:
    test_it_trains(name, tmp_path)
