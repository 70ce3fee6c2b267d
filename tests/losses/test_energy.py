"""Energies as losses against loops from the formulas."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from loss_batches import batch, value_and_gradient

from holdfast import losses, metrics, mining
from holdfast.errors import RecipeError


def loop(kind: str, s: float, z: torch.Tensor, pairs: list[tuple[int, int]]) -> float:
    """The energy of some ordered pairs."""
    apart = [math.dist(z[i].tolist(), z[j].tolist()) for i, j in pairs]
    if kind == "gaussian":
        return math.log(sum(math.exp(-s * d * d) for d in apart) / len(apart))
    return sum(-math.log(d) if s == 0 else d**-s for d in apart) / len(apart)


@pytest.mark.parametrize(
    ("kind", "s"), [("gaussian", 1.0), ("gaussian", 2.5), ("riesz", 0.0), ("riesz", 1.0), ("riesz", 2.5)]
)
def test_energy_of_all_and_of_given_pairs(kind: str, s: float) -> None:
    z, labels = batch(4)
    z = z.double()
    loss = losses.build("energy", kind=kind, s=s)
    every = list(itertools.permutations(range(len(z)), 2))
    torch.testing.assert_close(float(loss(z, labels)), loop(kind, s, z, every), rtol=1e-8, atol=1e-10)
    triplets = mining.build("random")(z, labels, torch.Generator().manual_seed(0))
    rows = zip(*(index.tolist() for index in triplets), strict=True)
    given = sorted({pair for a, p, n in rows for pair in ((a, p), (a, n))})
    torch.testing.assert_close(float(loss(z, labels, triplets)), loop(kind, s, z, given), rtol=1e-8, atol=1e-10)


def test_labels_do_not_matter_and_the_figures_agree() -> None:
    z, labels = batch(5)
    value, gradient = value_and_gradient(losses.build("energy"), z, labels)
    other, other_gradient = value_and_gradient(losses.build("energy"), z, labels.flip(0) % 2)
    assert value == other
    assert torch.equal(gradient, other_gradient)
    figures = metrics.geometry(z, labels)
    assert figures["gaussian_energy"] == pytest.approx(math.exp(float(value)), rel=1e-5)
    for s in (0, 1):
        assert figures[f"energy_{s}"] == pytest.approx(
            float(losses.build("energy", kind="riesz", s=s)(z, labels)), rel=1e-5
        )


def test_a_step_down_spreads_vectors() -> None:
    z, labels = batch(6)
    z = torch.nn.functional.normalize(z + 2 * z[:1], dim=1)
    _, gradient = value_and_gradient(losses.build("energy"), z, labels)
    moved = torch.nn.functional.normalize(z - 0.5 * gradient, dim=1)
    loss = losses.build("energy")
    assert loss(moved, labels).exp() < loss(z, labels).exp() - 1e-3


def test_orthogonal_vectors_have_the_published_gaussian_energy() -> None:
    value = losses.build("energy")(torch.eye(6), torch.arange(6))
    assert float(value.exp()) == pytest.approx(0.135, abs=5e-4)


@pytest.mark.parametrize(("kind", "s"), [("gaussian", 1.0), ("riesz", 0.0), ("riesz", 1.0)])
def test_gradients_are_right_and_finite_where_vectors_coincide(kind: str, s: float) -> None:
    loss, labels = losses.build("energy", kind=kind, s=s), torch.arange(4)
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    value, gradient = value_and_gradient(loss, z, labels)
    assert value.isfinite()
    assert gradient.isfinite().all()
    apart = torch.nn.functional.normalize(batch(3)[0][:4].double(), dim=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, labels), (apart,))


@pytest.mark.parametrize(("kind", "s"), [("gaussian", 0.0), ("riesz", -1.0)])
def test_an_impossible_exponent_is_refused(kind: str, s: float) -> None:
    with pytest.raises(RecipeError, match="s must be"):
        losses.build("energy", kind=kind, s=s)


@pytest.mark.parametrize("s", [1.0, 2.0])
def test_riesz_energy_of_a_close_pair_is_no_rounding(s: float) -> None:
    """In float32 the pair's squared distance, 9e-8, is lost in the products, and with it what pushes the two apart."""
    z = torch.nn.functional.normalize(torch.randn(16, 64, generator=torch.Generator().manual_seed(0)), dim=1)
    z[1] = torch.nn.functional.normalize(z[0] + 3e-4 * z[2], dim=0)
    labels, loss = torch.arange(16), losses.build("energy", kind="riesz", s=s)
    value, gradient = value_and_gradient(loss, z, labels)
    wide, wide_gradient = value_and_gradient(loss, z.double(), labels)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), wide, rtol=1e-5, atol=0)
    torch.testing.assert_close(
        gradient.double(), wide_gradient, rtol=1e-4, atol=1e-4 * float(wide_gradient.abs().max())
    )
