"""The recipes of easy positive sampling and of direct gradients hold what their papers print."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import pytest
import torch

from holdfast.training.recipe import load_recipe
from holdfast.training.recipe_files import shipped

EPS_PHOTOGRAPHS = [f"eps-{loss}{suffix}" for loss in ("triplet", "margin", "ms") for suffix in ("", "-baseline")]
EPS_RESNET = [*EPS_PHOTOGRAPHS, "eps-omniglot"]
GS = ["gs-cars", "gs-cars-resnet50", "gs-cub", "gs-sop", "gs-inshop", "gs-inshop-resnet50"]
COMPONENTS, COMPARISON = ["gs-cars", "gs-inshop"], ["gs-cars-resnet50", "gs-cub", "gs-sop", "gs-inshop-resnet50"]


def at(name: str, path: str) -> Any:
    """A value of a resolved recipe."""
    value: Any = load_recipe(name).plain()
    for key in path.split("."):
        value = value[key]
    return value


@pytest.mark.parametrize(
    ("names", "path", "value"),
    [
        ([*EPS_RESNET, *GS, "eps-mnist"], "data.validation", 0),
        ([*EPS_RESNET, *GS], "model.weights", "imagenet"),
        ([*EPS_RESNET, *GS], "model.fit", "crop"),
        ([*EPS_RESNET, *GS], "test_curve", True),
        # EPS, section 5.2.2 and Appendix C; what it leaves to the framework of Roth et al. is that framework's default
        (EPS_RESNET, "model.backbone", "resnet50.tv_in1k"),
        (EPS_RESNET, "model.dim", 128),
        (EPS_RESNET, "model.batchnorm", "freeze-statistics"),
        (EPS_RESNET, "optimizer.name", "adam"),
        (EPS_RESNET, "optimizer.lr", 1e-5),
        (EPS_RESNET, "optimizer.weight_decay", 4e-4),
        (EPS_RESNET, "optimizer.loss_weight_decay", 0),
        (EPS_RESNET, "schedule.name", "constant"),
        (EPS_RESNET, "epochs", 150),
        (EPS_PHOTOGRAPHS, "model.size", 224),
        (EPS_PHOTOGRAPHS, "augment.scale", [0.08, 1.0]),
        (["eps-omniglot"], "model.size", 80),
        (["eps-omniglot"], "data.labels", "coarse"),
        (["eps-omniglot"], "clustering.factor", 30),
        (EPS_PHOTOGRAPHS, "clustering.factor", 10),
        (["eps-triplet", "eps-triplet-baseline", "eps-mnist"], "loss.squared", True),
        (["eps-triplet", "eps-triplet-baseline", "eps-mnist"], "loss.margin", 0.2),
        (["eps-triplet"], "loss.miner.negative.name", "semihard"),
        (["eps-triplet-baseline"], "loss.miner.positives", "semihard"),
        (["eps-margin", "eps-margin-baseline", "eps-omniglot"], "loss.margin", 0.2),
        (["eps-margin", "eps-margin-baseline", "eps-omniglot"], "loss.beta", 1.2),
        (["eps-margin", "eps-margin-baseline", "eps-omniglot"], "optimizer.loss_lr", 5e-4),
        (["eps-margin", "eps-omniglot"], "loss.miner.negative.name", "distance"),
        (["eps-margin-baseline"], "loss.miner.name", "distance"),
        (["eps-ms", "eps-ms-baseline"], "loss.alpha", 2),
        (["eps-ms", "eps-ms-baseline"], "loss.base", 1),
        (["eps-ms", "eps-ms-baseline"], "loss.beta", 50),
        (["eps-ms", "eps-ms-baseline"], "loss.reduction", "mined"),
        (["eps-ms"], "loss.miner.negative.name", "multi-similarity"),
        (["eps-mnist"], "loss.miner.negative.name", "random"),
        (["eps-mnist"], "model.normalize", False),
        # GS, section 4
        (GS, "optimizer.name", "sgd"),
        (GS, "optimizer.momentum", 0),
        (GS, "optimizer.weight_decay", 0),
        (GS, "schedule", {"name": "step", "at": [0.6], "gamma": 0.1, "warmup": 0.0}),
        (GS, "augment", {"name": "random-crop", "size": None, "padding": 10, "flip": True}),
        (GS, "loss.miner.name", "ephn"),
        (COMPONENTS, "model.backbone", "resnet18.tv_in1k"),
        (COMPONENTS, "epochs", 60),
        (COMPARISON, "model.backbone", "resnet50.tv_in1k"),
        (COMPARISON, "epochs", 80),
        (["gs-cub", "gs-cars", "gs-cars-resnet50"], "model.dim", 64),
        (["gs-sop", "gs-inshop", "gs-inshop-resnet50"], "model.dim", 512),
        (["gs-cub"], "batch", {"classes": 16, "per_class": 8, "sampler": "classes"}),
        (["gs-cars", "gs-cars-resnet50"], "batch", {"classes": 8, "per_class": 16, "sampler": "classes"}),
        (["gs-sop", "gs-inshop", "gs-inshop-resnet50"], "batch", {"classes": 32, "per_class": 4, "sampler": "classes"}),
    ],
)
def test_published_values(names: list[str], path: str, value: Any) -> None:
    assert {name: at(name, path) for name in names} == dict.fromkeys(names, value)


def test_every_recipe_of_the_two_papers_is_looked_at() -> None:
    ours = [name for name in shipped() if name.startswith(("eps-", "gs-"))]
    assert sorted(ours) == sorted([*EPS_RESNET, *GS, "eps-mnist", "gs-pocket"])


@pytest.mark.parametrize("name", EPS_RESNET)
def test_batches_have_the_printed_160_images(name: str) -> None:
    batch = load_recipe(name).batch
    assert batch.classes * batch.per_class == 160


@pytest.mark.parametrize("name", GS)
def test_batches_have_the_printed_128_images(name: str) -> None:
    batch = load_recipe(name).batch
    assert batch.classes * batch.per_class == 128


@pytest.mark.parametrize("name", [*EPS_RESNET, *GS, "eps-mnist"])
def test_its_head_names_paper_table_and_data(name: str) -> None:
    text = (resources.files("holdfast.recipes") / f"{name}.yaml").read_text()
    paper = "EPS" if name.startswith("eps") else "GS"
    found = re.search(rf"^# paper: {paper}, Tables? [\d to and]+; data: ([a-z, ]+)$", text, re.MULTILINE)
    assert found
    assert load_recipe(name).data.name in found[1].split(", ")


@pytest.mark.parametrize("name", ["triplet", "margin", "ms"])
def test_a_baseline_differs_in_its_positives_alone(name: str) -> None:
    with_it, without = load_recipe(f"eps-{name}").plain(), load_recipe(f"eps-{name}-baseline").plain()
    mined, plain = with_it["loss"].pop("miner"), without["loss"].pop("miner")
    assert with_it == without
    assert mined["name"] == "easy-positive"
    assert mined["negative"]["name"] == plain["name"]


def test_triplets_cost_what_the_framework_of_the_paper_computes() -> None:
    """Squared distances, hinged at the margin, averaged over all triplets, the solved ones too."""
    z = torch.nn.functional.normalize(torch.randn(12, 5, generator=torch.Generator().manual_seed(0)), dim=1)
    labels = torch.arange(4).repeat_interleave(3)
    loss = load_recipe("eps-triplet").loss.build()
    found = loss.miner(z, labels, torch.Generator().manual_seed(1))
    costs = [
        max(0.0, float((z[a] - z[p]).square().sum() - (z[a] - z[n]).square().sum()) + 0.2)
        for a, p, n in zip(*found, strict=True)
    ]
    assert 0 < sum(cost == 0 for cost in costs) < len(costs)
    assert float(loss(z, labels, found)) == pytest.approx(sum(costs) / len(costs), rel=1e-5)
