"""Pair losses taken in blocks of rows against the same costs through plain automatic differentiation."""

from __future__ import annotations

import math

import pytest
import torch
from loss_batches import batch, value_and_gradient

from holdfast import losses, mining
from holdfast.losses import blocks, products
from holdfast.losses.logsumexp import masked_logsumexp
from holdfast.losses.terms import TermLoss
from holdfast.losses.tuples import PairLoss
from holdfast.mining import Miner
from holdfast.registry import Registry

BY_ROWS = ["binomial-deviance", "circle", "contrastive", "info-nce", "multi-similarity", "sup-con"]


def plain(loss: PairLoss, z: torch.Tensor, labels: torch.Tensor, miner: Miner | None) -> tuple[torch.Tensor, ...]:
    """The sum of the averages of all costs at once, differentiated by autograd through both sides of the matrix."""
    leaf = z.clone().requires_grad_()
    value = TermLoss.forward(loss, leaf, labels, None if miner is None else miner(z, labels))
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def test_the_list_is_complete() -> None:
    known = Registry.of(losses.Loss)
    classes = {name: known.get(name) for name in losses.names()}  # type: ignore[union-attr]
    assert [name for name, kind in classes.items() if issubclass(kind, PairLoss) and kind.by_rows] == BY_ROWS


@pytest.mark.parametrize("name", BY_ROWS)
@pytest.mark.parametrize("part", ["both", "positive", "negative"])
@pytest.mark.parametrize("miner", [None, "multi-similarity"])
@pytest.mark.parametrize(("rows", "tile"), [(1, 2), (4, 5), (7, 15), (100, 100)])
def test_blocks_change_nothing(
    name: str, part: str, miner: str | None, rows: int, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for unit in (True, False):
        z, labels = batch(8, unit=unit)
        z = z.double()
        monkeypatch.setattr(blocks, "BLOCK", rows * len(z))
        monkeypatch.setattr(products, "TILE", tile)
        chosen = None if miner is None else mining.build(miner)
        loss = losses.build(name, part=part)
        assert isinstance(loss, PairLoss)
        expected, expected_gradient = plain(loss, z, labels, chosen)
        value, gradient = value_and_gradient(loss, z, labels, None if chosen is None else chosen(z, labels))
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(gradient, expected_gradient)
        assert not unit or gradient.norm() > 1e-6
        with torch.no_grad():
            torch.testing.assert_close(loss(z, labels, None if chosen is None else chosen(z, labels)), expected)


@pytest.mark.parametrize("name", BY_ROWS)
def test_gradient_follows_what_is_done_to_the_cost(name: str) -> None:
    z, labels = batch(9)
    loss = losses.build(name)
    leaf = z.requires_grad_()
    cost = loss(leaf, labels)
    (once,) = torch.autograd.grad(cost, leaf, retain_graph=True)
    (again,) = torch.autograd.grad(-3 * cost, leaf)
    torch.testing.assert_close(again, -3 * once)


@pytest.mark.parametrize("scale", [1.0, -2.0, 400.0])
def test_masked_logsumexp(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(5, 9, generator=generator, dtype=torch.float64).requires_grad_()
    mask = (torch.rand(5, 9, generator=generator) > 0.5).double()
    mask[:, 0] = 1
    result = masked_logsumexp(values, mask, scale)
    for row, (entries, wanted) in enumerate(zip(values.tolist(), mask.tolist(), strict=True)):
        kept = [scale * entry for entry, one in zip(entries, wanted, strict=True) if one]
        expected = max(kept) + math.log(sum(math.exp(entry - max(kept)) for entry in kept))
        assert math.isclose(float(result.detach()[row]), expected, rel_tol=1e-12)
    if abs(scale) < 100:  # finite differences of a sharper one are all rounding
        assert torch.autograd.gradcheck(lambda v: masked_logsumexp(v, mask, scale), values)


def test_masked_logsumexp_of_nothing() -> None:
    values = torch.randn(2, 3).requires_grad_()
    result = masked_logsumexp(values, torch.zeros(2, 3))
    assert (result < -1e37).all()
    assert (result + result).isfinite().all()
    cost = torch.nn.functional.softplus(result).sum()
    assert cost == 0
    assert (torch.autograd.grad(cost, values)[0] == 0).all()
    assert masked_logsumexp(torch.zeros(0, 0), torch.zeros(0, 0)).shape == (0,)
