from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from holdfast.errors import DataError, ModelError
from holdfast.models import Embedder, ModelConfig, backbones
from holdfast.models.backbones import build_backbone

BACKBONES = ["resnet18", "resnet50", "resnet152", "torchvision:mobilenet_v2", "conv-small", "conv-tiny"]


def linear_net() -> nn.Module:
    """A user's module, found by import path."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 10))


def not_a_module() -> int:
    return 3


@pytest.mark.parametrize("name", BACKBONES)
def test_every_backbone_gives_unit_vectors_of_the_asked_length(name: str) -> None:
    embedder = Embedder(name, dim=24, size=64).eval()
    z, pooled = embedder(torch.rand(2, 3, 64, 64), return_pooled=True)
    assert z.shape == (2, 24)
    assert pooled.shape == (2, embedder.feature_dim)
    torch.testing.assert_close(z.norm(dim=1), torch.ones(2))
    torch.testing.assert_close(z, embedder.project(pooled))


def test_whole_numbers_are_no_images() -> None:
    with pytest.raises(DataError, match="uint8; divide by 255"):
        Embedder("conv-tiny", dim=8)(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))


def test_a_mistyped_path_is_no_error_of_the_hub(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model at"):
        Embedder.from_pretrained(tmp_path / "run" / "modl")


def test_without_a_head_the_pooled_features_are_normalised() -> None:
    embedder = Embedder("conv-tiny", dim=None).eval()
    z, pooled = embedder(torch.rand(2, 3, 32, 32), return_pooled=True)
    torch.testing.assert_close(z, nn.functional.normalize(pooled, dim=1))


def test_pixels_are_normalised_inside() -> None:
    embedder = Embedder("resnet18", dim=8, size=64).eval()
    images = torch.rand(2, 3, 64, 64)
    mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
    expected = nn.functional.normalize(embedder.head(embedder.backbone((images - mean) / std)), dim=1)
    torch.testing.assert_close(embedder(images), expected)


def test_mnist_plane_is_the_papers_network() -> None:
    embedder = Embedder("mnist-plane", dim=2, normalize=False).eval()
    assert embedder(torch.rand(3, 3, 28, 28)).shape == (3, 2)
    shapes = [tuple(p.shape) for p in embedder.parameters() if p.ndim > 1]
    assert shapes == [(32, 3, 3, 3), (64, 32, 3, 3), (128, 64 * 12 * 12), (2, 128)]


def test_half_precision_autocast_keeps_unit_length_in_float32() -> None:
    embedder = Embedder("conv-tiny", dim=16).eval()
    with torch.autocast("cpu", torch.bfloat16):
        z = embedder(torch.rand(4, 3, 32, 32))
    assert z.dtype == torch.float32
    torch.testing.assert_close(z.norm(dim=1), torch.ones(4))


@pytest.mark.parametrize("name", ["conv-tiny", "resnet18"])
def test_package_round_trip_is_exact(name: str, tmp_path: Path) -> None:
    embedder = Embedder(name, dim=16, size=64, batchnorm="freeze-statistics")
    embedder(torch.rand(4, 3, 64, 64))
    embedder.eval().save_pretrained(tmp_path / "model")
    assert {f.name for f in (tmp_path / "model").iterdir()} == {"config.json", "model.safetensors", "README.md"}
    again = Embedder.from_pretrained(str(tmp_path / "model"))
    images = torch.rand(2, 3, 64, 64)
    assert torch.equal(again(images), embedder(images))
    assert (again.size, again.canvas, again.batchnorm) == (64, 64, "freeze-statistics")


def test_user_module_by_import_path_and_never_from_a_file_alone(tmp_path: Path) -> None:
    path = f"{__name__}:linear_net"
    embedder = Embedder(path, dim=5, size=32).eval()
    assert embedder(torch.rand(2, 3, 32, 32)).shape == (2, 5)
    embedder.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="trust_code=True"):
        Embedder.from_pretrained(str(tmp_path))
    again = Embedder.from_pretrained(str(tmp_path), trust_code=True)
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(again(images), embedder(images))


def test_wrapped_module_embeds_but_cannot_be_packaged(tmp_path: Path) -> None:
    wrapped = Embedder.wrap(linear_net(), size=16).eval()
    assert wrapped.dim == 10
    torch.testing.assert_close(wrapped(torch.rand(2, 3, 16, 16)).norm(dim=1), torch.ones(2))
    with pytest.raises(ModelError, match="wrapped"):
        wrapped.save_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet5", "did you mean 'timm:resnet50'"),
        ("torchvision:mobilenet_v9", "did you mean 'torchvision:mobilenet_v2'"),
        ("no.such.package:f", "No module named"),
        ("os:getcw", "did you mean 'getcwd'"),
        ("os:no_such_function", "has no 'no_such_function'; name a function"),
        (f"{__name__}:not_a_module", "must return a torch.nn.Module"),
    ],
)
def test_wrong_backbones_are_one_clear_line(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as error:
        Embedder(name)
    assert "\n" not in str(error.value)


def test_canvas_smaller_than_size_is_refused() -> None:
    with pytest.raises(ModelError, match="canvas"):
        Embedder("conv-tiny", size=32, canvas=16)


def test_probing_a_module_leaves_its_modes_alone() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(48, 4), nn.BatchNorm1d(4), nn.Dropout())
    module[2].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    Embedder.wrap(module, size=4)
    assert [m.training for m in module] == [True, True, False, True]
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_module_that_returns_maps_is_refused() -> None:
    with pytest.raises(ModelError, match="to vectors"):
        Embedder.wrap(nn.Conv2d(3, 4, 3), size=8)


def test_default_sizes() -> None:
    assert build_backbone("conv-small").expects.view.size == 32
    resnet = Embedder("resnet18.tv_in1k", dim=4)
    assert (resnet.size, resnet.canvas) == (224, 256)
    assert ModelConfig(backbone="conv-tiny").build().canvas == 32


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "resnet18"])
def test_the_size_reaches_backbones_that_are_built_for_one(name: str) -> None:
    embedder = Embedder(name, dim=8, size=64).eval()
    assert embedder(torch.rand(1, 3, 64, 64)).shape == (1, 8)


@pytest.mark.parametrize(("name", "size"), [("crossvit_tiny_240", 224), ("efficientformer_l1", 256)])
def test_a_size_that_a_backbone_cannot_take_is_one_line(name: str, size: int) -> None:
    with pytest.raises(ModelError, match=f"{name} does not take images .*{size}.* give --size") as error:
        Embedder(name, size=size)
    assert "\n" not in str(error.value)


def test_published_weights_are_fetched_for_the_size_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    import timm

    create = timm.create_model
    monkeypatch.setattr("holdfast.models.fetching.reachable", lambda url: True)
    monkeypatch.setattr(timm, "create_model", lambda name, pretrained, **other: create(name, **other))
    embedder = ModelConfig(backbone="vit_tiny_patch16_224", weights="imagenet", dim=8, size=64).build()
    assert embedder.eval()(torch.rand(1, 3, 64, 64)).shape == (1, 8)


def test_weights_that_cannot_be_fetched_say_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    import timm

    def offline(*_: object, **__: object) -> None:
        raise OSError("offline")

    monkeypatch.setattr("holdfast.models.fetching.reachable", lambda url: True)
    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(ModelError, match=r"timm:resnet18 \(offline\); get .*safetensors .* give timm:resnet18@FILE"):
        build_backbone("resnet18", pretrained=True)


def test_channels_first_on_arm_is_the_same_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = backbones.StridedConv(3, 8, 3, stride=2, padding=1, bias=False).to(memory_format=torch.channels_last)
    images = torch.rand(2, 3, 9, 9).to(memory_format=torch.channels_last)
    gradients = []
    for on_arm in (True, False):
        monkeypatch.setattr(backbones, "ON_ARM", on_arm)
        seen = images.clone().requires_grad_()
        features = layer(seen)
        gradients.append((features, *torch.autograd.grad(features.square().sum(), (seen, layer.weight))))
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted)
