"""Pair losses on unusual batches: listed pairs against masks, in blocks against plain automatic differentiation."""

from __future__ import annotations

import pytest
import torch
from loss_batches import value_and_gradient
from torch import Tensor

from holdfast import losses
from holdfast.losses import layout
from holdfast.losses.terms import TermLoss
from holdfast.mining import Pairs, Triplets

NAMES = ["binomial-deviance", "circle", "contrastive", "info-nce", "lifted-structure", "multi-similarity", "sup-con"]
SIZE = 24
LABELS = {
    "one class": torch.zeros(SIZE, dtype=torch.long),
    "singletons": torch.arange(SIZE),
    "a huge class among singletons": torch.arange(SIZE).clamp_max(8),
    "two classes": torch.arange(SIZE) % 2,
    "pairs": torch.arange(SIZE) // 2,
}


def vectors(unit: bool = True) -> Tensor:
    z = torch.randn(SIZE, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return torch.nn.functional.normalize(z, dim=1) if unit else z


def plain(name: str, z: Tensor, labels: Tensor, monkeypatch: pytest.MonkeyPatch) -> tuple[Tensor, Tensor]:
    """From masks, all rows at once, differentiated by autograd through the matrix."""
    loss = losses.build(name)
    assert isinstance(loss, TermLoss)
    leaf = z.clone().requires_grad_()
    with monkeypatch.context() as patch:
        patch.setattr(layout, "FEW", 0.0)
        value = TermLoss.forward(loss, leaf, labels)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("few", [0.0, 0.25, 1.0])
def test_any_division_into_classes(name: str, kind: str, few: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for unit in (True, False):
        z, labels = vectors(unit), LABELS[kind]
        expected = plain(name, z, labels, monkeypatch)
        monkeypatch.setattr(layout, "FEW", few)
        for relation in (labels, labels[:, None] == labels[None, :]):
            for found, wanted in zip(value_and_gradient(losses.build(name), z, relation), expected, strict=True):
                torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_a_number_is_not_hidden(name: str) -> None:
    z, labels = vectors(), LABELS["pairs"]
    z[3, 2] = torch.nan
    value, gradient = value_and_gradient(losses.build(name), z, labels)
    assert value.isnan()
    assert gradient.isnan().any()


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_gives_the_gradient_of_its_float(name: str) -> None:
    half, labels = vectors().bfloat16(), LABELS["pairs"]
    value, gradient = value_and_gradient(losses.build(name), half, labels)
    expected, expected_gradient = value_and_gradient(losses.build(name), half.float(), labels)
    assert value.dtype == torch.float32
    assert gradient.dtype == torch.bfloat16
    assert value == expected
    assert torch.equal(gradient, expected_gradient.bfloat16())


@pytest.mark.parametrize("name", NAMES)
def test_a_second_call_finds_nothing_of_the_first(name: str) -> None:
    z, labels = vectors(), LABELS["pairs"]
    loss, given = losses.build(name), z.clone()
    first = value_and_gradient(loss, z, labels)
    value_and_gradient(loss, vectors(unit=False), LABELS["two classes"])
    second = value_and_gradient(loss, z, labels)
    assert torch.equal(z, given)
    assert first[0] == second[0]
    assert torch.equal(first[1], second[1])


@pytest.mark.parametrize("name", NAMES)
def test_an_image_given_as_its_own_positive_counts(name: str) -> None:
    """One published miner returns it."""
    z, labels = vectors(), LABELS["pairs"]
    index = torch.arange(SIZE)
    triplets = Triplets(index, index, (index + 5) % SIZE)
    twin = Pairs(index.repeat(2), torch.cat([index, triplets.negative]), torch.arange(2 * SIZE) < SIZE)
    found, wanted = (value_and_gradient(losses.build(name), z, labels, tuples) for tuples in (triplets, twin))
    torch.testing.assert_close(found, wanted)
    without = Pairs(index, triplets.negative, torch.zeros(SIZE, dtype=torch.bool))
    if name in ("info-nce", "lifted-structure", "circle", "multi-similarity"):
        assert found[0] > value_and_gradient(losses.build(name), z, labels, without)[0]
