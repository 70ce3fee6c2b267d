"""A published model sees a photograph as its own library shows it, from the file to the vector."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from safetensors.torch import save_file
from torch import Tensor, nn

from holdfast import audit, evaluate
from holdfast.cli import main
from holdfast.data import ImageStore, load
from holdfast.evaluation import document, embed
from holdfast.models import Embedder, load_model
from holdfast.models.names import ensure_torchvision

TOLERANCE = 1e-4
"""Distance of unit vectors; the pixels are the same, only the order of sums may differ."""


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wide, a tall and a small photograph with coarse and fine structure."""
    folder = tmp_path_factory.mktemp("photos")
    for name, (width, height) in {"a.png": (413, 271), "b.jpg": (250, 401), "c.png": (120, 90)}.items():
        fine = np.random.default_rng(len(name)).integers(0, 256, (height, width, 3), dtype=np.uint8)
        coarse = Image.linear_gradient("L").resize((width, height)).convert("RGB")
        image = Image.blend(Image.fromarray(fine), coarse, 0.6)
        ImageDraw.Draw(image).ellipse((width // 5, height // 5, width // 2, height // 2), "orange", "navy", 9)
        image.save(folder / name)
    return folder


def theirs(module: nn.Module, transform: Callable[[Image.Image], Tensor], photos: Path) -> Tensor:
    """Unit vectors the way a user of the library alone would get them."""
    images = torch.stack([transform(Image.open(file).convert("RGB")) for file in sorted(photos.iterdir())])
    with torch.no_grad():
        return nn.functional.normalize(module.eval()(images), dim=1)


def ours(model: Embedder, photos: Path) -> Tensor:
    return embed(model, ImageStore(load(f"images:{photos}"), model.view, "cpu"))


def assert_same(found: Tensor, wanted: Tensor) -> None:
    assert found.shape == wanted.shape
    assert float((found - wanted).norm(dim=1).max()) < TOLERANCE


@pytest.mark.parametrize(
    "name",
    [
        "resnet18.tv_in1k",  # bilinear, 256 to 224
        "mobilenetv3_small_050.lamb_in1k",  # bicubic
        "vit_tiny_patch16_224.augreg_in21k_ft_in1k",  # 0.9 of the canvas, colours around 0.5
        "tf_efficientnetv2_b3.in21k_ft_in1k",  # squashed, 240 px
    ],
)
def test_a_timm_model_from_a_file(name: str, photos: Path, tmp_path: Path) -> None:
    ensure_torchvision()
    import timm
    from timm.data import create_transform, resolve_data_config

    torch.manual_seed(1)
    module = timm.create_model(name, num_classes=0)
    save_file(module.state_dict(), tmp_path / "weights.safetensors")
    transform = create_transform(**resolve_data_config({}, model=module))
    wanted = theirs(module, transform, photos)
    model = load_model(f"timm:{name}@{tmp_path / 'weights.safetensors'}")
    assert_same(ours(model, photos), wanted)

    model.save_pretrained(tmp_path / "package")
    assert_same(ours(load_model(str(tmp_path / "package")), photos), wanted)


def test_another_view_would_be_found_out(photos: Path) -> None:
    """On the smallest of those models."""
    name = "mobilenetv3_small_050.lamb_in1k"
    torch.manual_seed(1)
    model = Embedder(name, dim=None).eval()
    wanted = ours(model, photos)
    changes: list[dict[str, Any]] = [
        {"fit": "squash" if model.view.fit == "crop" else "crop"},
        {"canvas": model.canvas + 40},
        {"interpolation": "bilinear" if model.view.interpolation == "bicubic" else "bicubic"},
        {"mean": [0.4, 0.5, 0.6]},
        {"std": [0.3, 0.2, 0.1]},
    ]
    for change in changes:
        other = Embedder(name, dim=None, **change).eval()
        other.load_state_dict(model.state_dict())
        assert float((ours(other, photos) - wanted).norm(dim=1).max()) > 10 * TOLERANCE, change


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("mobilenet_v3_small", {}),
        ("resnet18", {}),
        ("mnasnet0_5", {}),  # asks its file for a version
        ("convnext_tiny", {}),  # normalises in its classifier
        ("googlenet", {"transform_input": True, "init_weights": False}),  # as it is with weights; has side heads
    ],
)
def test_a_torchvision_model_from_a_file(name: str, published: dict[str, bool], photos: Path, tmp_path: Path) -> None:
    ensure_torchvision()
    from torchvision import models

    torch.manual_seed(1)
    module = models.get_model(name, **published)
    torch.save(dict(module.state_dict()), tmp_path / "weights.pth")
    transform = models.get_model_weights(name)["IMAGENET1K_V1"].transforms()
    classifier = module.fc if hasattr(module, "fc") else module.classifier
    dense = next(layer for layer in classifier.modules() if isinstance(layer, nn.Linear))
    features: list[Tensor] = []
    dense.register_forward_pre_hook(lambda _, inputs: features.append(nn.functional.normalize(inputs[0], dim=1)))
    theirs(module, transform, photos)
    spec = f"torchvision:{name}.IMAGENET1K_V1@{tmp_path / 'weights.pth'}"
    model = load_model(spec)
    assert_same(ours(model, photos), features[0])

    model.save_pretrained(tmp_path / "package")
    assert_same(ours(load_model(str(tmp_path / "package")), photos), features[0])
    learns = model.train()(torch.rand(2, 3, 64, 64))
    assert learns.shape == (2, model.dim)
    learns.sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_the_command_line_and_every_file_tell_the_view(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`holdfast embed`, and what an evaluation and an audit write down."""
    ensure_torchvision()
    import timm
    from timm.data import create_transform, resolve_data_config

    torch.manual_seed(1)
    module = timm.create_model("mobilenetv3_small_050", num_classes=0)
    file = tmp_path / "weights.safetensors"
    save_file(module.state_dict(), file)
    spec = f"timm:mobilenetv3_small_050@{file}"
    words = ["embed", spec, "--data", f"images:{photos}", "--out", str(tmp_path / "v.npz"), "--device", "cpu"]
    assert main([*words, "--json"]) == 0
    capsys.readouterr()
    transform = create_transform(**resolve_data_config({}, model=module))
    assert_same(torch.from_numpy(np.load(tmp_path / "v.npz")["vectors"]), theirs(module, transform, photos))

    for file in sorted(photos.iterdir()):
        for label in ("one", "two"):
            (tmp_path / "classes" / label).mkdir(parents=True, exist_ok=True)
            Image.open(file).save(tmp_path / "classes" / label / f"{file.stem}.png")
    data = f"folder:{tmp_path / 'classes'}"
    told = "256 → 224 px, shape kept, centre crop, bicubic"
    assert document(evaluate(spec, data, device="cpu"), model="", data=data, seed=0)["view"] == told


def test_an_audit_of_the_same_weights_in_another_view_is_another(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Embedder("conv-tiny", dim=8).eval()
    squashing = Embedder("conv-tiny", dim=8, fit="squash").eval()
    squashing.load_state_dict(model.state_dict())
    data = {"name": "glyphs", "characters": 20, "per_class": 4}
    arguments: dict[str, Any] = {"protocol": "adml", "limit": 3, "out": tmp_path, "device": "cpu"}
    first, second = (audit.run(each, data, **arguments).document for each in (model, squashing))
    assert first["view"] == "32 px, shape kept, centre crop, bilinear"
    assert second["view"] == "32 px, squashed, bilinear"
    assert first["identity"] != second["identity"]
    assert json.loads((tmp_path / "audit-adml-fixed.1.json").read_text())["view"] == first["view"]
