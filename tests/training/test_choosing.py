"""Without a recipe, `train` looks at images, device and weights, and says what it chose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import holdfast
from holdfast.cli import main
from holdfast.models import Embedder
from holdfast.models.names import backbone_named, published_start
from holdfast.training import choosing
from holdfast.training.choosing import choose_recipe
from holdfast.training.recipe import load_recipe

CPU = torch.device("cpu")


@pytest.fixture
def photographs(tmp_path: Path) -> str:
    """Twelve classes of four photographs of 120 × 100 pixels: stripes of a width that the class has, in any colour."""
    draw = np.random.default_rng(0)
    for label in range(12):
        folder = tmp_path / "photographs" / f"class-{label}"
        folder.mkdir(parents=True)
        for number in range(4):
            stripes = (np.arange(120) // (label + 2) % 2)[None, :, None] * draw.integers(80, 255, 3)
            noisy = np.clip(stripes + draw.integers(0, 60, (100, 120, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / f"{number}.png")
    return f"folder:{tmp_path / 'photographs'}"


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A weights file as torchvision names its own."""
    torch.manual_seed(0)
    file = tmp_path / "mobilenet_v2-0123abcd.safetensors"
    save_file(Embedder("torchvision:mobilenet_v2", dim=None, size=64).backbone.state_dict(), file)
    return file


def test_small_images_get_a_small_network() -> None:
    choice = choose_recipe("glyphs", (), CPU)
    assert choice.recipe == "pocket"
    assert len(choice.lines) == 2


def test_photographs_on_a_cpu_get_a_fitted_head(photographs: str, weights: Path) -> None:
    choice = choose_recipe(photographs, (f"init={weights}",), CPU)
    assert choice.recipe == "fitted-head"
    assert "batch.classes=4" in choice.settings
    assert "48 images of 12 classes, 100 px" in choice.lines[0]


def test_weights_that_are_set_are_what_training_starts_from(photographs: str, weights: Path) -> None:
    """Also where others lie in a cache."""
    choice = choose_recipe(photographs, (f"model.weights={weights}",), CPU)
    model = load_recipe(choice.recipe, photographs, [*choice.settings, f"model.weights={weights}"]).model
    assert (model.backbone, model.weights) == ("torchvision:mobilenet_v2", str(weights))
    with pytest.raises(holdfast.HoldfastError, match=r"of which backbone; add --set model\.backbone=NAME"):
        choose_recipe(photographs, ("model.weights=imagenet",), CPU)


def test_photographs_of_full_size_are_seen_larger_than_the_backbone_learnt(
    photographs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("init=torchvision:resnet18",)
    assert not any("model.size" in setting for setting in choose_recipe(photographs, settings, CPU).settings)
    monkeypatch.setattr(choosing, "shorter_side", lambda table: 480.0)
    assert "model.size=288" in choose_recipe(photographs, settings, CPU).settings


def test_a_transformer_keeps_its_own_pooling(photographs: str) -> None:
    assert "model.pooling=null" in choose_recipe(photographs, ("init=timm:test_vit",), CPU).settings


def test_many_classes_on_a_gpu_let_the_backbone_learn(photographs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ("init=torchvision:resnet18",)
    assert choose_recipe(photographs, settings, torch.device("cuda")).recipe == "fitted-head"
    monkeypatch.setattr(choosing, "MANY_CLASSES", 4)
    monkeypatch.setattr(choosing, "MANY_IMAGES", 16)
    assert choose_recipe(photographs, settings, torch.device("cuda")).recipe == "resnet50-ms-tuned"
    assert choose_recipe(photographs, settings, CPU).recipe == "fitted-head"


def test_without_weights_one_line_says_how_to_get_them(
    photographs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(holdfast.HoldfastError, match="--init torchvision:mobilenet_v2"):
        choose_recipe(photographs, (), CPU)


def test_weights_in_a_cache_are_at_hand(
    photographs: str, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = tmp_path / "torch" / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    weights.rename(checkpoints / weights.name)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshot = tmp_path / "hub" / "models--timm--resnet18.a1_in1k" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"x" * 10)
    assert choosing.weights_at_hand() == "timm:resnet18.a1_in1k"
    start = choosing.weights_at_hand(largest=True)
    assert start == f"torchvision:mobilenet_v2@{checkpoints / weights.name}"


def test_a_weights_file_is_known_by_its_name(tmp_path: Path) -> None:
    assert backbone_named("mobilenet_v2-imagenet.safetensors") == "torchvision:mobilenet_v2"
    assert backbone_named("resnet50-0676ba61.pth") == "torchvision:resnet50"
    assert backbone_named("resnet10t_176_c3-f3215ab1.pth") == "resnet10t"
    assert backbone_named("mine.pth") is None
    assert published_start("resnet18.safetensors") == ("torchvision:resnet18", "resnet18.safetensors")
    assert published_start("mine.pth") is None


@pytest.mark.parametrize("named", ["", "torchvision:mobilenet_v2@"])
def test_a_weights_file_that_is_not_there_leaves_nothing_behind(named: str, photographs: str, tmp_path: Path) -> None:
    start = f"init={named}{tmp_path / 'mobilenet_v2-x.pth'}"
    fetched = "or fetch them with --init torchvision:mobilenet_v2"
    with pytest.raises(holdfast.HoldfastError, match=f"no weights at .*{fetched}"):
        holdfast.train(data=photographs, settings=[start], out=tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_a_mistyped_backbone_is_refused_before_anything_is_chosen(photographs: str, weights: Path) -> None:
    with pytest.raises(holdfast.HoldfastError, match="did you mean 'torchvision:mobilenet_v2'"):
        choose_recipe(photographs, (f"init=torchvision:mobilnet_v2@{weights}",), CPU)


@pytest.mark.parametrize("start", ["runs/mine", "mine.pth"])
def test_what_names_no_backbone_needs_a_recipe_or_a_name(start: str, photographs: str) -> None:
    with pytest.raises(holdfast.HoldfastError, match="torchvision:NAME@FILE"):
        choose_recipe(photographs, (f"init={start}",), CPU)


def test_the_command_without_a_recipe_ends_in_a_run_that_repeats(
    photographs: str, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    command = ["train", "--data", photographs, "--weights", str(weights), "--out", str(out)]
    assert main([*command, "--set", "model.size=64", "--device", "cpu"]) == 0
    told = capsys.readouterr()
    assert "chosen: the recipe fitted-head" in told.err
    assert "(before: the plain features of torchvision:mobilenet_v2 at 64 px)" in told.out
    again = holdfast.train(out / "recipe.yaml", out=tmp_path / "again", device="cpu")
    first = holdfast.evaluate(str(out), photographs).values["R@1"]
    assert again.evaluation["metrics"]["R@1"] == pytest.approx(first)


def test_pocket_on_photographs_is_answered_with_the_better_command(
    photographs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--set", "model.backbone=conv-tiny", "--set", "batch.classes=3", "--set", "epochs=1"]
    assert main(["train", "pocket", "--data", photographs, "--out", str(tmp_path / "run"), *small]) == 0
    assert f"holdfast train --data {photographs} --init FILE" in capsys.readouterr().err
