"""A head fitted in closed form: chosen on held-out classes, and never without a gain on them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import holdfast
from holdfast import metrics, seeds
from holdfast.models import Embedder, load_model
from holdfast.models.backbones import GeM, gem_of
from holdfast.training import load_recipe
from holdfast.training.fitting import FLOORS, Whitening, choose, cross_validated, widest
from holdfast.training.logs import read_log


def blobs(nuisance: float, classes: int = 12, each: int = 8) -> tuple[Tensor, Tensor]:
    """Classes that differ in forty directions, and images of each in five others, which say nothing of it."""
    generator = seeds.generator(1, "blobs")
    labels = torch.arange(classes).repeat_interleave(each)
    centres = torch.randn(classes, 40, generator=generator, dtype=torch.float64)
    own = centres[labels] + torch.randn(len(labels), 40, generator=generator, dtype=torch.float64)
    spread = nuisance * torch.randn(len(labels), 5, generator=generator, dtype=torch.float64)
    return torch.cat([own, spread], dim=1), labels


def recall(z: Tensor, labels: Tensor) -> float:
    return float(metrics.retrieval(torch.nn.functional.normalize(z), labels)["R@1"] or 0)


def test_directions_that_differ_within_classes_are_shrunk_for_classes_never_seen() -> None:
    features, labels = blobs(nuisance=12.0)
    seen = labels < 6
    whitening = Whitening.of(features[seen], labels[seen])
    before = recall(features[~seen], labels[~seen])
    assert recall(whitening(features[~seen], 1.0), labels[~seen]) > before + 20
    power, floor = choose(cross_validated({1.0: features}, labels, seed=0))
    assert (power, floor) == (1.0, FLOORS[-1])


def test_few_and_many_images_give_the_same_directions() -> None:
    features, labels = blobs(nuisance=3.0, classes=4, each=8)  # fewer images than features, then more of the same
    few, many = Whitening.of(features, labels), Whitening.of(features.repeat(3, 1), labels.repeat(3))
    torch.testing.assert_close(few(features, 1.0), many(features, 1.0))


def test_an_infinite_floor_leaves_features_as_they_are() -> None:
    features, labels = blobs(nuisance=3.0)
    assert torch.equal(Whitening.of(features, labels)(features, math.inf), features)


def test_what_is_not_better_on_held_out_classes_is_not_taken() -> None:
    scores = {(1.0, math.inf): 80.0, (2.0, math.inf): 75.0, (1.0, 10.0): 70.0, (2.0, 10.0): 60.0}
    assert choose(scores) == (1.0, math.inf)
    assert choose({**scores, (2.0, math.inf): 90.0, (1.0, 10.0): 85.0, (2.0, 10.0): 95.0}) == (2.0, 10.0)


def test_one_lucky_pair_does_not_win_against_what_is_good_on_average() -> None:
    lucky = {(1.0, math.inf): 80.0, (2.0, math.inf): 82.0, (1.0, 10.0): 70.0, (2.0, 10.0): 82.1}
    assert choose(lucky) == (2.0, math.inf)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_too_few_classes_hold_nothing_out(classes: int) -> None:
    features, labels = blobs(3.0, classes)
    assert cross_validated({1.0: features}, labels, seed=0) == {}


def whitened(tiny: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**tiny, "model": {"backbone": "conv-tiny", "head": "whitened", **changes}, "epochs": 0}


def test_a_run_without_epochs_fits_a_head_that_is_packaged(tiny: dict[str, Any], tmp_path: Path) -> None:
    recipe = whitened({**tiny, "data": {**tiny["data"], "validation": 0}}, dim=None)
    run = holdfast.train(recipe, out=tmp_path / "run")
    model = load_model(str(run.folder))
    assert run.evaluation["kept"]["epoch"] == 0
    assert "held out" in run.evaluation["kept"]["why"]
    assert (model.dim, run.evaluation["start"]["of"]) == (model.feature_dim, "the untrained model")
    again = holdfast.evaluate(model, tiny["data"]).values["R@1"]
    assert again == pytest.approx(run.evaluation["metrics"]["R@1"])
    with pytest.raises(holdfast.HoldfastError, match="epochs"):
        load_recipe({**recipe, "model": {**recipe["model"], "head": None}})


def test_a_smaller_dim_keeps_the_similarities_that_it_can() -> None:
    features = blobs(3.0)[0][:, :5] @ torch.randn(5, 45, generator=seeds.generator(0, "up"), dtype=torch.float64)
    z = features @ widest(features, 5)
    torch.testing.assert_close(z @ z.T, features @ features.T)


def test_training_goes_on_from_a_fitted_head(tiny: dict[str, Any], tmp_path: Path) -> None:
    recipe = {**whitened(tiny, dim=16), "epochs": 1, "ema": 0.5}
    run = holdfast.train(recipe, out=tmp_path / "run")
    assert run.evaluation["kept"]["epoch"] == 1
    assert load_model(str(run.folder)).dim == 16


def test_a_head_is_fitted_in_the_run_that_comes_first_alone(tiny: dict[str, Any], tmp_path: Path) -> None:
    """What that run made of it is where this one starts."""
    recipe = {**whitened(tiny, dim=16), "epochs": 1, "start": {"epochs": 2}}
    run = holdfast.train(recipe, out=tmp_path / "run", device="cpu")
    first, second = (read_log(folder / "metrics.jsonl") for folder in (run.folder / "start", run.folder))
    assert any("fitted" in line for line in first)
    assert not any("fitted" in line for line in second)
    with pytest.raises(holdfast.HoldfastError, match="epochs must be 1 or more"):
        load_recipe({**recipe, "epochs": 0})


def test_a_head_is_fitted_to_what_the_model_sees_whatever_crops_are_cut_from(
    tiny: dict[str, Any], photos: Path, tmp_path: Path
) -> None:
    data, batch = {"name": "folder", "root": str(photos)}, {"classes": 4, "per_class": 2}
    recipe = whitened({**tiny, "data": data, "batch": batch}, dim=16, size=12, canvas=14)
    models = []
    for canvas in (None, 20):
        augment = {"name": "random-resized-crop", "canvas": canvas}
        run = holdfast.train({**recipe, "augment": augment}, out=tmp_path / str(canvas))
        models.append(load_model(str(run.folder)).state_dict())
    assert all(torch.equal(value, models[1][name]) for name, value in models[0].items())


def test_more_dims_than_features_are_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(holdfast.HoldfastError, match=r"model\.dim"):
        holdfast.train(whitened(tiny, dim=4096), out=tmp_path / "run")


@pytest.mark.parametrize("backbone", ["resnet10t", "torchvision:resnet18", "torchvision:mobilenet_v2"])
def test_gem_begins_as_the_average_and_is_packaged(backbone: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain = Embedder(backbone, dim=None, size=32).eval()
    pooled = Embedder(backbone, dim=None, size=32, pooling="gem").eval()
    pooled.load_state_dict(plain.state_dict(), strict=False)
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(pooled(images), plain(images), rtol=1e-3, atol=1e-3)
    gem = gem_of(pooled.backbone)
    assert gem is not None
    torch.nn.init.constant_(gem.power, 3.0)
    pooled.save_pretrained(tmp_path)
    again = Embedder.from_pretrained(tmp_path)
    assert torch.equal(again(images), pooled(images))


def test_gem_of_any_sign_is_between_average_and_maximum() -> None:
    maps = torch.randn(2, 3, 5, 5, generator=seeds.generator(0, "maps"))
    torch.testing.assert_close(GeM.pool(maps, 1.0), maps.mean((2, 3), keepdim=True), rtol=0, atol=1e-5)
    steep = GeM.pool(maps.abs(), 50.0)
    assert bool((steep < maps.abs().amax((2, 3), keepdim=True)).all())
    assert bool((steep > GeM.pool(maps.abs(), 3.0)).all())


def test_gem_refuses_a_backbone_without_one_average() -> None:
    with pytest.raises(holdfast.HoldfastError, match="pooling: gem"):
        Embedder("conv-tiny", pooling="gem")
