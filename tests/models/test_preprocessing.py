"""Published models are seen as their libraries show images to them; packages remember how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.errors import ModelError
from holdfast.models import Embedder, ModelConfig, load_model
from holdfast.models.names import ensure_torchvision
from holdfast.models.preprocessing import Preprocessing, preprocessing_of, settings_of_before
from holdfast.view import View

VIEW_KEYS = ("size", "canvas", "fit", "interpolation", "mean", "std")


def timms_own(name: str, size: int | None = None) -> Any:
    """The steps of timm's own transform."""
    ensure_torchvision()
    from timm.data import create_transform, resolve_data_config
    from timm.models import get_pretrained_cfg

    asked = {} if size is None else {"img_size": size}
    return create_transform(**resolve_data_config(asked, get_pretrained_cfg(name).to_dict())).transforms


def assert_like_timm(expects: Preprocessing, steps: Any) -> None:
    resize, crop, _, normalise = steps
    view = expects.view
    assert view.interpolation == resize.interpolation.value
    assert tuple(crop.size) == (view.size, view.size)
    # A whole number is the shorter side, a pair are both sides.
    assert resize.size == (view.canvas if view.fit == "crop" else (view.canvas, view.canvas))
    torch.testing.assert_close(torch.tensor(expects.mean), normalise.mean)
    torch.testing.assert_close(torch.tensor(expects.std), normalise.std)


def test_every_published_timm_model_is_seen_as_timm_shows_it() -> None:
    ensure_torchvision()
    import timm

    seen = 0
    for name in timm.list_pretrained()[::8]:
        cfg = timm.models.get_pretrained_cfg(name)
        if cfg.crop_mode == "border" or cfg.input_size[1] != cfg.input_size[2] or cfg.crop_pct > 1:
            continue
        assert_like_timm(preprocessing_of(name), timms_own(name))
        seen += 1
    assert seen > 150


@pytest.mark.parametrize(
    ("name", "view"),
    [
        ("resnet50.tv_in1k", View(224, 256, "crop", "bilinear")),
        ("resnet18.tv_in1k", View(224, 256, "crop", "bilinear")),
        ("resnet50.a1_in1k", View(224, 235, "crop", "bicubic")),
        ("dm_nfnet_f0.dm_in1k", View(192, 213, "squash", "bicubic")),
        ("volo_d4_448.sail_in1k", View(448, 448, "crop", "bicubic")),
        ("deepseek_vit_412m_enc.deepseek_v4_1_flash", View(546, 546, "pad", "bicubic")),
        ("torchvision:resnet50", View(224, 232, "crop", "bilinear")),
        ("torchvision:resnet50.IMAGENET1K_V1", View(224, 256, "crop", "bilinear")),
        ("torchvision:efficientnet_b4", View(380, 384, "crop", "bicubic")),
        ("torchvision:vit_b_16.IMAGENET1K_SWAG_E2E_V1", View(384, 384, "crop", "bicubic")),
        ("conv-small", View(32, 32)),
        ("mnist-plane", View(28, 28)),
        ("package.module:function", View(224, 256)),
    ],
)
def test_views_of_some_names(name: str, view: View) -> None:
    ensure_torchvision()
    import timm

    if name.startswith("deepseek") and not timm.is_model(name):
        pytest.skip("this timm is older")
    assert preprocessing_of(name).view == view


@pytest.mark.parametrize("name", ["resnet50.tv_in1k", "resnet50.a1_in1k", "dm_nfnet_f0.dm_in1k"])
@pytest.mark.parametrize("size", [96, 160, 300])
def test_at_another_size_the_share_of_the_image_stays(name: str, size: int) -> None:
    assert_like_timm(preprocessing_of(name, size), timms_own(name, size))


def test_other_sizes_of_torchvision_and_small_pictures() -> None:
    assert preprocessing_of("torchvision:resnet50", 112).view.canvas == 116
    assert preprocessing_of("torchvision:resnet50.IMAGENET1K_V1", 160).view.canvas == 182  # 182.86, cut off
    for name in ("resnet18.tv_in1k", "torchvision:resnet50", "conv-tiny", "package.module:function"):
        assert preprocessing_of(name, 64).view == View(64, 64, "crop", preprocessing_of(name).view.interpolation)


def test_every_torchvision_classifier_is_seen_as_its_transforms_say() -> None:
    ensure_torchvision()
    from torchvision import models
    from torchvision.transforms._presets import ImageClassification

    seen = 0
    for name in models.list_models():
        for weights in models.get_model_weights(name):
            own = weights.transforms()
            if not isinstance(own, ImageClassification):
                continue
            expects = preprocessing_of(f"torchvision:{name}.{weights.name}")
            assert expects.view == View(own.crop_size[0], own.resize_size[0], "crop", own.interpolation.value)
            assert (expects.mean, expects.std) == (tuple(own.mean), tuple(own.std))
            seen += 1
    assert seen > 80


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet18.tv_in2k", "unknown weights 'resnet18.tv_in2k'; did you mean 'resnet18.tv_in1k'"),
        ("resnet1.tv_in1k", "unknown backbone"),
        ("torchvision:resnet50.IMAGENET1K_V3", "unknown weights of torchvision:resnet50 'IMAGENET1K_V3'"),
        (
            "torchvision:resnet51.IMAGENET1K_V1",
            "did you mean 'torchvision:resnet50'?",
        ),
    ],
)
def test_wrong_tags_are_one_clear_line(name: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        Embedder(name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_arguments_take_the_place_of_the_backbones_own() -> None:
    own = Embedder("resnet18.tv_in1k", dim=4)
    assert own.view == View(224, 256, "crop", "bilinear")
    other = Embedder("resnet18.tv_in1k", dim=4, size=64, canvas=72, fit="pad", interpolation="bicubic", mean=[0.5] * 3)
    assert other.view == View(64, 72, "pad", "bicubic")
    torch.testing.assert_close(other.mean.flatten(), torch.full((3,), 0.5))
    torch.testing.assert_close(other.std, own.std)
    part = ModelConfig(backbone="resnet18.tv_in1k", dim=4, fit="squash").build()
    assert part.view == View(224, 256, "squash", "bilinear")


@pytest.mark.parametrize("settings", [{"mean": [0.5]}, {"std": [0.5, 0.5, 0.0]}, {"mean": [float("nan")] * 3}])
def test_impossible_colours_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="must be three numbers"):
        Embedder("conv-tiny", dim=4, **settings)


def test_a_package_does_not_ask_the_library_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of timm may give a plain name other weights, with another view and other colours."""
    import timm.models

    model = Embedder("resnet18", dim=4, size=64).eval()
    model.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert {key: stored[key] for key in VIEW_KEYS} == {
        "size": 64,
        "canvas": 64,
        "fit": "crop",
        "interpolation": "bicubic",
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
    }
    later = timm.models.PretrainedCfg(
        input_size=(3, 128, 128), crop_pct=0.5, crop_mode="squash", interpolation="bilinear", mean=(0.5, 0.5, 0.5)
    )
    monkeypatch.setattr(timm.models, "get_pretrained_cfg", lambda _: later)
    assert Embedder("resnet18", dim=4).view == View(128, 256, "squash", "bilinear")
    again = load_model(str(tmp_path))
    assert again.view == model.view
    torch.testing.assert_close(again.mean, model.mean)
    images = torch.rand(2, 3, 64, 64)
    torch.testing.assert_close(again(images), model(images))


def made_older(package: Path, **settings: Any) -> None:
    """Write a package's config.json as it was before there was a choice."""
    file = package / "config.json"
    kept = {k: v for k, v in json.loads(file.read_text()).items() if k not in VIEW_KEYS}
    file.write_text(json.dumps({**kept, "size": None, "canvas": None, **settings}))


@pytest.mark.parametrize(
    ("name", "settings", "view"),
    [
        ("conv-tiny", {}, View(32, 32, "squash", "bilinear")),
        ("conv-tiny", {"size": 32, "canvas": 40}, View(32, 40, "squash", "bilinear")),
        ("resnet18", {}, View(224, 256, "squash", "bilinear")),
        ("resnet18", {"size": 160}, View(160, 183, "squash", "bilinear")),
        ("torchvision:mobilenet_v2", {}, View(224, 256, "squash", "bilinear")),
    ],
)
def test_an_older_package_squashes_as_it_did(name: str, settings: dict[str, Any], view: View, tmp_path: Path) -> None:
    Embedder(name, dim=4).save_pretrained(tmp_path)
    made_older(tmp_path, **settings)
    model = load_model(str(tmp_path))
    assert model.view == view
    model.save_pretrained(tmp_path / "again")
    assert load_model(str(tmp_path / "again")).view == view, "what was unsaid is said from now on"


def test_an_older_package_of_torchvision_keeps_size_and_colours() -> None:
    """All of them were shown 224 px in ImageNet's colours, whatever their weights' transforms say."""
    settings = settings_of_before({"backbone": "torchvision:efficientnet_v2_l", "size": None, "canvas": None})
    assert (settings["size"], settings["canvas"], settings["mean"][0]) == (224, 256, 0.485)
    assert preprocessing_of("torchvision:efficientnet_v2_l").mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("name", ["resnet18.tv_in1k", "resnet50.tv_in1k"])
def test_a_tag_reaches_timm_when_weights_are_fetched(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_torchvision()
    import timm

    create, asked = timm.create_model, []

    def without_internet(name: str, pretrained: bool = False, **other: Any) -> Any:
        asked.append((name, pretrained))
        return create(name, **other)

    monkeypatch.setattr("holdfast.models.fetching.reachable", lambda url: True)
    monkeypatch.setattr(timm, "create_model", without_internet)
    model = ModelConfig(backbone=name, dim=4, weights="imagenet").build()
    assert asked == [(name, False), (name, True)]
    assert model.view == View(224, 256, "crop", "bilinear")


@pytest.mark.parametrize(("name", "wanted"), [("resnet18.IMAGENET1K_V1", "V1"), ("mobilenet_v2", "V2")])
def test_a_tag_reaches_torchvision_when_weights_are_fetched(
    name: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_torchvision()
    from torchvision import models

    get, asked = models.get_model, []

    def without_internet(name: str, weights: Any = None, **other: Any) -> Any:
        asked.append(getattr(weights, "name", None))
        return get(name, **other)

    monkeypatch.setattr("holdfast.models.fetching.reachable", lambda url: True)
    monkeypatch.setattr(models, "get_model", without_internet)
    ModelConfig(backbone=f"torchvision:{name}", dim=4, size=64, weights="imagenet").build()
    assert asked == [None, f"IMAGENET1K_{wanted}"]


def test_a_package_on_the_hub_decides_by_its_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import hub_mixin

    from holdfast.models import embedder

    model = Embedder("resnet18.tv_in1k", dim=4, size=64, canvas=80, fit="pad", std=[0.5] * 3).eval()
    model.save_pretrained(tmp_path)

    def download(repo_id: str, filename: str, **_: Any) -> str:
        assert repo_id == "owner/name"
        return str(tmp_path / filename)

    monkeypatch.setattr(embedder, "hf_hub_download", download)
    monkeypatch.setattr(hub_mixin, "hf_hub_download", download)
    again = load_model("owner/name")
    assert again.preprocessing == model.preprocessing
    assert again.view == View(64, 80, "pad", "bilinear")
