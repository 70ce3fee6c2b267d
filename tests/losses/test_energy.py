"""Energies as losses against loops from the formulas."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from loss_batches import batch, value_and_gradient

from holdfast import losses, mining
from holdfast.errors import RecipeError
from holdfast.sphere import energy, gaussian_energy


def loop(kind: str, s: float, z: torch.Tensor, pairs: list[tuple[int, int]]) -> float:
    """The energy of some ordered pairs."""
    apart = [math.dist(z[i].tolist(), z[j].tolist()) for i, j in pairs]
    if kind == "gaussian":
        return math.log(sum(math.exp(-s * d * d) for d in apart) / len(apart))
    return sum(-math.log(d) if s == 0 else d**-s for d in apart) / len(apart)


@pytest.mark.parametrize(("kind", "s"), [("gaussian", 1.0), ("gaussian", 2.5), ("riesz", 0.0), ("riesz", 1.0)])
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


def test_labels_do_not_matter_and_the_measures_agree() -> None:
    z, labels = batch(5)
    value, gradient = value_and_gradient(losses.build("energy"), z, labels)
    other, other_gradient = value_and_gradient(losses.build("energy"), z, labels.flip(0) % 2)
    assert value == other
    assert torch.equal(gradient, other_gradient)
    torch.testing.assert_close(value, gaussian_energy(z, log=True))
    torch.testing.assert_close(losses.build("energy", kind="riesz", s=1.0)(z, labels), energy(z))


def test_a_step_down_spreads_vectors() -> None:
    z, labels = batch(6)
    z = torch.nn.functional.normalize(z + 2 * z[:1], dim=1)
    _, gradient = value_and_gradient(losses.build("energy"), z, labels)
    moved = torch.nn.functional.normalize(z - 0.5 * gradient, dim=1)
    assert gaussian_energy(moved) < gaussian_energy(z) - 1e-3


@pytest.mark.parametrize(("kind", "s"), [("gaussian", 0.0), ("riesz", -1.0)])
def test_an_impossible_exponent_is_refused(kind: str, s: float) -> None:
    with pytest.raises(RecipeError, match="s must be"):
        losses.build("energy", kind=kind, s=s)
