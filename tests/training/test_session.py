from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast import console
from holdfast.errors import RecipeError
from holdfast.models import Embedder, ModelConfig, load_model
from holdfast.training.recipe import load_recipe
from holdfast.training.session import build_session, make_accelerator, start_from
from holdfast.view import View

USER_CODE = "from holdfast.models import SmallConvNet\ndef build():\n    return SmallConvNet((4, 4, 4))\n"


class Spy(Exception):
    """Stops where accelerate would look for a device."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What accelerate was asked for, and which GPU was made the current one."""
    found: list[Any] = []

    def accelerator(cpu: bool, **_: object) -> None:
        found.append(cpu)
        raise Spy

    monkeypatch.setattr("holdfast.training.session.Accelerator", accelerator)
    monkeypatch.setattr(torch.cuda, "set_device", found.append)
    return found


@pytest.mark.parametrize("device", ["cpu", "cpu:0", torch.device("cpu")])
def test_every_spelling_of_the_cpu_is_the_cpu(
    tiny: dict[str, Any], device: str | torch.device, asked: list[Any]
) -> None:
    with pytest.raises(Spy):
        make_accelerator(load_recipe(tiny), device)
    assert asked == [True]


def test_the_second_gpu_is_the_second_gpu(
    tiny: dict[str, Any], asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(Spy):
        make_accelerator(load_recipe({**tiny, "precision": "float32"}), "cuda:1")
    assert asked == [torch.device("cuda", 1), False]


def test_skip_bad_of_a_recipe_reaches_the_images(tiny: dict[str, Any], photos: Path) -> None:
    tiny["data"] = {"name": "folder", "root": str(photos), "skip_bad": True}
    tiny["batch"] = {"classes": 3, "per_class": 3}
    for name in range(12):
        (photos / f"class-{name}" / "0.png").write_bytes(b"junk")
    session = build_session(load_recipe(tiny), "cpu", skip_bad=False)
    assert session.skip_bad
    assert session.store.skipped


def test_a_run_to_start_from_may_have_a_backbone_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_backbone_of_init.py").write_text(USER_CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    first = Embedder("my_backbone_of_init:build", dim=4, size=32)
    first.save_pretrained(tmp_path / "run" / "model")
    second = start_from(ModelConfig(backbone="my_backbone_of_init:build", dim=4, size=32), str(tmp_path / "run"))
    assert torch.equal(first.head.weight, second.head.weight)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "view"),
    [
        ({}, View(64, 80, "squash", "bicubic")),
        ({"fit": "crop"}, View(64, 80, "crop", "bicubic")),
        ({"canvas": 64, "interpolation": "bilinear"}, View(64, 64, "squash", "bilinear")),
        ({"size": 112}, View(112, 128, "squash", "bicubic")),
    ],
)
def test_a_model_to_start_from_says_how_images_are_seen(settings: dict[str, Any], view: View, tmp_path: Path) -> None:
    """Unless the recipe does: weights that learnt squashed images in other colours go on with them."""
    own: dict[str, Any] = {"size": 64, "canvas": 80, "fit": "squash", "interpolation": "bicubic", "mean": [0.5] * 3}
    Embedder("resnet18.tv_in1k", dim=4, **own).save_pretrained(tmp_path / "package")
    model = start_from(ModelConfig(backbone="resnet18.tv_in1k", dim=4, **settings), str(tmp_path / "package"))
    assert model.view == view
    assert model.preprocessing.mean == (0.5, 0.5, 0.5)
    model.save_pretrained(tmp_path / "again")
    assert load_model(str(tmp_path / "again")).preprocessing == model.preprocessing


def test_a_model_to_start_from_keeps_its_activation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless the recipe names another, which is said."""
    first = Embedder("conv-tiny", dim=4, activation="softplus").eval()
    first.save_pretrained(tmp_path / "package")
    images = torch.rand(2, 3, 32, 32)
    second = start_from(ModelConfig(backbone="conv-tiny", dim=4), str(tmp_path / "package")).eval()
    assert torch.equal(first(images), second(images))
    second.save_pretrained(tmp_path / "again")
    assert torch.equal(first(images), load_model(str(tmp_path / "again"))(images))
    silu = ModelConfig(backbone="conv-tiny", dim=4, activation="silu")
    with console.shown():
        other = start_from(silu, str(tmp_path / "package")).eval()
    assert not torch.equal(first(images), other(images))
    assert "learnt with softplus, and goes on with model.activation: silu" in capsys.readouterr().err


def test_a_tracker_that_is_not_there_is_refused(tiny: dict[str, Any]) -> None:
    for name, message in (("foo", "Unsupported"), ("clearml", "clearml cannot be used here")):
        with pytest.raises(RecipeError, match=message):
            make_accelerator(load_recipe({**tiny, "trackers": [name]}), "cpu")


@pytest.mark.parametrize(("canvas", "told"), [(18, False), (60, True)])
def test_a_canvas_that_no_photograph_fills_is_told(
    tiny: dict[str, Any], photos: Path, capsys: pytest.CaptureFixture[str], canvas: int, told: bool
) -> None:
    tiny |= {"data": {"name": "folder", "root": str(photos)}, "batch": {"classes": 4, "per_class": 2}}
    tiny["model"] = {**tiny["model"], "size": 12, "canvas": canvas}
    with console.shown():
        build_session(load_recipe(tiny | {"augment": {"name": "random-resized-crop", "canvas": 640}}), "cpu")
    assert ("augment.canvas is of no use" in capsys.readouterr().err) == told
