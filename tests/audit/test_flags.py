"""Every planted fault raises its flag; a sound model raises none."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast import audit
from holdfast.audit import probes
from holdfast.audit.flags import backfires
from holdfast.data import ImageTable
from holdfast.models import Embedder
from holdfast.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD

SIZE = 16
"""Of the images of the model."""


class Wrapped(nn.Module):
    """A model with something done to its input."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def before(self, images: Tensor) -> Tensor:
        return images

    def forward(self, images: Tensor) -> Tensor:
        return self.model(self.before(images))


class Quantised(Wrapped):
    """Rounds its input, so that the gradient is zero everywhere."""

    def before(self, images: Tensor) -> Tensor:
        return (images * 16).round() / 16


class _Backwards(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor) -> Tensor:
        return images.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return -gradient


class Backwards(Wrapped):
    """Lies about the direction of its gradient."""

    def before(self, images: Tensor) -> Tensor:
        return _Backwards.apply(images)  # type: ignore[no-any-return,no-untyped-call]


class _OnGridOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor) -> Tensor:
        levels = images * 255
        ctx.on_grid = bool((levels - levels.round()).abs().max() < 1e-3)
        return images.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient if ctx.on_grid else torch.zeros_like(gradient)


class OneStepOnly(Wrapped):
    """Has a gradient at 8-bit pictures alone: one step works, the next ones see nothing."""

    def before(self, images: Tensor) -> Tensor:
        return _OnGridOnly.apply(images)  # type: ignore[no-any-return,no-untyped-call]


class Noisy(Wrapped):
    def before(self, images: Tensor) -> Tensor:
        return images + 0.02 * torch.randn_like(images)


class ExpectsBytes(Wrapped):
    def before(self, images: Tensor) -> Tensor:
        return images / 255


class NormalisedTwice(Wrapped):
    """Normalises, although the model inside does so itself on images in [0, 1], to which it clips what it gets."""

    def before(self, images: Tensor) -> Tensor:
        mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
        return ((images - mean) / std).clamp(0, 1)


class OtherWithGradients(Wrapped):
    """Shows attacks a network whose weights are a little off."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.shown = copy.deepcopy(model)
        torch.manual_seed(0)
        with torch.no_grad():
            for weight in self.shown.parameters():
                weight += 0.2 * weight.std(correction=0) * torch.randn_like(weight)

    def forward(self, images: Tensor) -> Tensor:
        return self.shown(images) if images.requires_grad else self.model(images)


class Collapsed(Wrapped):
    def forward(self, images: Tensor) -> Tensor:
        z = self.model(images)
        return torch.ones_like(z) + 0.01 * z


class BatchStatistics(Wrapped):
    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.norm = nn.BatchNorm1d(32, track_running_stats=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.norm(self.model(images))  # type: ignore[no-any-return]


class Stretched(Wrapped):
    def forward(self, images: Tensor) -> Tensor:
        return 3 * self.model(images)


def flags(model: nn.Module, table: ImageTable, **arguments: Any) -> set[str]:
    arguments = {"protocol": "adml", "limit": 40, "size": SIZE, **arguments}
    found = audit.run(model, table, **arguments).document["flags"]
    for flag in found:
        assert flag["level"] in ("note", "warning", "error")
        assert len(flag["why"]) > 20
        assert len(flag["advice"]) > 20
    return {flag["name"] for flag in found}


def test_a_sound_model_raises_none(model: Embedder, table: ImageTable) -> None:
    assert flags(model, table) == set()


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (Quantised, {"masked-before"}),
        (Backwards, {"masked-before"}),
        (OneStepOnly, {"masked-before"}),
        (Collapsed, {"collapse"}),
        (OtherWithGradients, {"gradient-path"}),
        (BatchStatistics, {"batch-dependent"}),
    ],
)
def test_a_planted_fault_raises_its_flags(
    fault: type[Wrapped], raised: set[str], model: Embedder, table: ImageTable
) -> None:
    assert raised <= flags(fault(model).eval(), table)


@pytest.mark.parametrize(("limit", "told"), [(6, True), (12, False)])
def test_too_few_queries_to_find_a_mask_are_told(limit: int, told: bool, model: Embedder, learnt: ImageTable) -> None:
    """Of six, even all that fall to another gradient alone may do so by chance."""
    assert ("few-checked" in flags(model, learnt, limit=limit)) == told


@pytest.mark.parametrize("eps", [None, "1/255", "64/255"])
def test_an_attack_that_leaves_images_farther_from_its_aim_is_told(
    eps: str | None, model: Embedder, table: ImageTable
) -> None:
    protocol = {"name": "ers", "eps": eps}
    assert "attack-backfires" not in flags(model, table, protocol=protocol, checks=False)
    assert "attack-backfires" in flags(Backwards(model).eval(), table, protocol=protocol, checks=False)


def test_attacks_on_gallery_images_may_fail_now_and_then() -> None:
    clean = torch.arange(1.0, 31.0)
    for name, worse in (("ca+", 1), ("ca-", -1)):
        for count, told in ((0, False), (3, False), (4, True)):
            places = clean.clone()
            places[:count] += worse
            places[count:] -= worse
            found = backfires({name: {"place": places, "clean_place": clean}})
            assert [flag.name for flag in found] == ["attack-backfires"] * told
    assert backfires({"es": {"shift": clean}}) == []


def test_ranks_that_rounding_moves_in_a_large_gallery_are_no_failure() -> None:
    clean = torch.linspace(1e5, 1e6, 50)
    assert backfires({"ca+": {"place": clean + 20, "clean_place": clean}}) == []
    assert backfires({"ca+": {"place": clean * 1.1, "clean_place": clean}}) != []


class RandomBatchStatistics(BatchStatistics):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images + 0.01 * torch.randn_like(images))


@pytest.mark.parametrize(
    ("fault", "raised"), [(BatchStatistics, "batch-dependent"), (RandomBatchStatistics, "randomised")]
)
def test_a_model_that_refuses_a_lone_image_is_audited(
    fault: type[Wrapped], raised: str, model: Embedder, table: ImageTable
) -> None:
    refusing = fault(model).eval()
    with pytest.raises(ValueError, match="more than 1 value"):
        refusing(torch.zeros(1, 3, SIZE, SIZE))
    assert raised in flags(refusing, table, limit=1)


@pytest.mark.parametrize("fault", [ExpectsBytes, NormalisedTwice])
def test_pixels_in_another_range_than_expected(fault: type[Wrapped], model: Embedder, learnt: ImageTable) -> None:
    """On characters it has learnt: unseen ones of 16 pixels are told apart too poorly for the range to matter."""
    assert flags(model, learnt) == set()
    assert "input-range" in flags(fault(model).eval(), learnt)


def test_vectors_of_other_lengths_are_no_doubt_about_gradients(model: Embedder, table: ImageTable) -> None:
    assert flags(Stretched(model).eval(), table) == {"non-unit-outputs"}


def test_a_model_in_training_mode(model: Embedder, table: ImageTable) -> None:
    assert "training-mode" in flags(model.train(), table)


def test_a_randomised_model_is_attacked_through_its_mean(
    model: Embedder, table: ImageTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "QUERIES", 20)  # every look is a mean of many; that search wins is tried above
    noisy = Noisy(model).eval()
    documents = [audit.run(noisy, table, protocol="adml", limit=10, size=SIZE).document for _ in range(2)]
    assert [flag["name"] for flag in documents[0]["flags"]] == ["randomised"]
    first, second = (document["metrics"] for document in documents)
    assert first == second, "its draws are seeded"
    assert first["alignment/R@1"] < 0.5 * first["R@1"]
