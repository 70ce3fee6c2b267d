"""Smooth functions in the place of ReLU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.models import Embedder, ModelConfig, load_model
from holdfast.models.activation import Activation
from holdfast.models.fused import fuse


@pytest.mark.parametrize(("name", "kind"), [("softplus", nn.Softplus), ("silu", nn.SiLU)])
@pytest.mark.parametrize("backbone", ["conv-tiny", "resnet18"])
def test_every_relu_is_replaced_and_weights_keep_their_names(backbone: str, name: Activation, kind: type) -> None:
    plain, smooth = (Embedder(backbone, dim=8, size=32, activation=one) for one in (None, name))
    count = sum(isinstance(layer, nn.ReLU) for layer in plain.modules())
    assert count
    assert not any(isinstance(layer, nn.ReLU) for layer in smooth.modules())
    assert sum(isinstance(layer, kind) for layer in smooth.modules()) == count
    assert smooth.state_dict().keys() == plain.state_dict().keys()
    assert fuse(smooth.backbone) is None, "kernels that end in ReLU are another function"


def test_softplus_is_near_relu_and_has_a_slope_below_zero() -> None:
    layer = next(
        part for part in Embedder("conv-tiny", activation="softplus").modules() if isinstance(part, nn.Softplus)
    )
    x = torch.linspace(-3, 3, 61, requires_grad=True)
    (slope,) = torch.autograd.grad(layer(x).sum(), x)
    torch.testing.assert_close(slope, torch.sigmoid(10 * x.detach()))
    assert (layer(x) - x.relu()).abs().max() < 0.07


def test_a_package_says_which(tmp_path: Path) -> None:
    model = ModelConfig(backbone="conv-tiny", dim=8, size=32, activation="silu").build().eval()
    model.save_pretrained(tmp_path / "m")
    images = torch.rand(2, 3, 32, 32)
    for again in (load_model(str(tmp_path / "m")), Embedder.from_pretrained(tmp_path / "m")):
        torch.testing.assert_close(again(images), model(images))


def test_what_has_no_relu_is_refused_in_one_line() -> None:
    with pytest.raises(ModelError, match="this backbone has none"):
        Embedder("vit_tiny_patch16_224", dim=8, activation="silu")
