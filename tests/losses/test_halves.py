"""Pair losses from half of the matrix against the same costs through plain automatic differentiation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from loss_batches import batch, value_and_gradient

from holdfast import losses
from holdfast.losses import products, tuples
from holdfast.losses.halves import Half, halvable
from holdfast.losses.hinged import close_pairs
from holdfast.losses.layout import sides_by_labels
from holdfast.losses.pooled import EXPONENT, poolable
from holdfast.losses.sides import Listed
from holdfast.losses.terms import TermLoss
from holdfast.losses.tuples import PairLoss

POOLED = ["info-nce", "multi-similarity", "sup-con"]
PATHS = ["row_cost", "pooled_cost", "hinged_cost"]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways that losses take, in their order."""
    names: list[str] = []

    def watch(name: str) -> None:
        original = getattr(tuples, name)

        def watched(*arguments: Any) -> torch.Tensor:
            names.append(name)
            value: torch.Tensor = original(*arguments)
            return value

        monkeypatch.setattr(tuples, name, watched)

    for name in PATHS:
        watch(name)
    return names


def check(loss: losses.Loss, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Value and gradient are those of the plain way, also without a graph; returns the gradient."""
    assert isinstance(loss, PairLoss)
    leaf = z.clone().requires_grad_()
    expected = TermLoss.forward(loss, leaf, labels)
    (expected_gradient,) = torch.autograd.grad(expected, leaf)
    value, gradient = value_and_gradient(loss, z, labels)
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(gradient, expected_gradient)
    with torch.no_grad():
        torch.testing.assert_close(loss(z, labels), expected.detach())
    return gradient


@pytest.mark.parametrize("name", POOLED)
@pytest.mark.parametrize("part", ["both", "positive", "negative"])
@pytest.mark.parametrize("tile", [1, 4, 100])
def test_pooled(name: str, part: str, tile: int, taken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "TILE", tile)
    z, labels = batch(3, classes=6)
    labels[labels == 5] = torch.arange(5, 8)  # classes of one image: no positives
    assert check(losses.build(name, part=part), z.double(), labels).norm() > 1e-6
    assert set(taken) == {"pooled_cost"}


@pytest.mark.parametrize("part", ["both", "positive", "negative"])
@pytest.mark.parametrize("tile", [1, 4, 100])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("margin", [0.0, 0.6, 5.0, 50.0])
def test_hinged(
    margin: float, unit: bool, tile: int, part: str, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "TILE", tile)
    monkeypatch.setattr(products, "SPARSE", 2.0)
    z, labels = batch(5, unit=unit)
    check(losses.build("contrastive", margin=margin, part=part), z.double(), labels)
    assert set(taken) == {"hinged_cost"}


def test_many_close_negatives_are_not_listed(taken: list[str]) -> None:
    z, labels = batch(2, classes=100, per_class=2)
    for margin, way in ((1e-4, "hinged_cost"), (1.0, "row_cost")):
        taken.clear()
        check(losses.build("contrastive", margin=margin), z.double(), labels)
        assert set(taken) == {way}


def test_a_crowd_that_the_first_look_misses(monkeypatch: pytest.MonkeyPatch, taken: list[str]) -> None:
    """One crowd among far vectors, none of it in the rows that are looked at first."""
    size = 160
    z = 10 * torch.eye(size, dtype=torch.float64)
    crowd = [row for row in range(size) if row % 10][:60]
    z[crowd] = z[crowd[0]] + 0.01 * z[crowd]
    monkeypatch.setattr(products, "TILE", 32)
    check(losses.build("contrastive"), z, torch.arange(size) // 2)
    assert set(taken) == {"row_cost"}


@pytest.mark.parametrize("name", POOLED)
def test_exponents_out_of_range(name: str, taken: list[str]) -> None:
    """Sharp losses and long vectors take the way that shifts every row by its own peak."""
    z, labels = batch(4)
    loss = losses.build(name)
    assert isinstance(loss, PairLoss)
    assert loss.sharpness is not None
    longer = 1.01 * (EXPONENT / loss.sharpness) ** 0.5
    assert not poolable(longer * z, loss.sharpness)
    check(loss, longer * z.double(), labels)
    assert set(taken) == {"row_cost"}
    taken.clear()
    gradient = check(loss, longer / 1.02 * z.double(), labels)
    assert set(taken) == {"pooled_cost"}
    _, single = value_and_gradient(loss, longer / 1.02 * z, labels)
    torch.testing.assert_close(single.double(), gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", [*POOLED, "contrastive"])
def test_relevance_that_is_not_mutual(name: str, taken: list[str]) -> None:
    z, labels = batch(6)
    relevance = labels[:, None] == labels
    relevance[0, relevance[0].logical_not().nonzero()[0]] = True
    check(losses.build(name), z.double(), relevance)
    assert set(taken) == {"row_cost"}


@pytest.mark.parametrize("name", [*POOLED, "contrastive"])
def test_what_is_not_a_number_is_not_hidden(name: str) -> None:
    z, labels = batch(6, classes=100, per_class=2)
    z[7, 2] = torch.nan
    assert losses.build(name)(z, labels).isnan()


@pytest.mark.parametrize("tile", [1, 3, 100])
def test_half(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "TILE", tile)
    z, labels = batch(1)
    sides = sides_by_labels(z, labels, distances=False)
    assert halvable(z, labels, sides)
    assert isinstance(sides.near, Listed)
    half = Half(z, sides.near.columns, 2.0)
    same = labels[:, None] == labels
    torch.testing.assert_close(half.near(), (2 * z @ z.T).gather(1, sides.near.columns))
    half.strike(7)
    expected = (2 * z @ z.T).masked_fill(same, 7)
    for rows, part in half.tiles():
        torch.testing.assert_close(part, expected[rows, : rows.stop])
    gradient = torch.rand(sides.near.columns.shape, generator=torch.Generator().manual_seed(0)) * sides.near.real
    half.add(gradient)
    added = torch.zeros_like(expected).scatter_add_(1, sides.near.columns, gradient)
    torch.testing.assert_close(half.product(z), (expected + added + added.T) @ z)


def test_close_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "SPARSE", 2.0)
    z, labels = batch(7)
    near = sides_by_labels(z, labels, distances=True).near
    assert isinstance(near, Listed)
    close = close_pairs(z, near, 1.0)
    assert close is not None
    found = set(zip(close.rows.tolist(), close.columns.tolist(), strict=True))
    apart = torch.cdist(z.double(), z.double()).square()
    wanted = (apart < 1.0) & (labels[:, None] != labels)
    assert found == {(i, j) for i, j in wanted.nonzero().tolist() if i > j}
    assert len(found) > 3
