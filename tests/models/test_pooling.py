"""Max-pooled features beside the embedding's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from holdfast.errors import ModelError
from holdfast.models import Embedder
from holdfast.models.bank import SetStart

IMAGES = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def model() -> Embedder:
    torch.manual_seed(0)
    made = Embedder("resnet10t", dim=8, size=64).eval()
    made.bank.add(made.backbone, SetStart("other", noise=0.3), torch.Generator().manual_seed(1))
    return made


@torch.no_grad()
@pytest.mark.parametrize("distribution", ["clean", "other"])
def test_losses_see_the_sum_of_both_and_embeddings_what_they_saw(model: Embedder, distribution: str) -> None:
    z, average = model(IMAGES, return_pooled=True, distribution=distribution)
    maps = []
    model.backbone.global_pool.register_forward_pre_hook(lambda _, inputs: maps.append(inputs[0]))
    model(IMAGES, distribution=distribution)
    model.add_max_pooling()
    again, both = model(IMAGES, return_pooled=True, distribution=distribution)
    assert torch.equal(again, z)
    assert torch.equal(model(IMAGES, distribution=distribution), z)
    assert torch.equal(model.features(IMAGES, distribution), average)
    torch.testing.assert_close(both, maps[0].mean((2, 3)) + maps[0].amax((2, 3)))
    assert (both - 2 * average).abs().max() > 0.01


def test_a_package_is_the_same(model: Embedder, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "plain")
    model.add_max_pooling()
    model.save_pretrained(tmp_path / "both")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "both" / name).read_bytes()
    loaded = Embedder.from_pretrained(str(tmp_path / "both"))
    assert not loaded.max_pooled
    with torch.no_grad():
        assert torch.equal(loaded(IMAGES), model(IMAGES))


def test_a_backbone_without_such_pooling_is_refused_in_one_line() -> None:
    with pytest.raises(ModelError, match="pooling: average") as caught:
        Embedder("conv-tiny", dim=8).add_max_pooling()
    assert "\n" not in str(caught.value)
