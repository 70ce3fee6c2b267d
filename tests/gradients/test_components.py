"""Directions, pair weights, triplet weights and masks, each by itself."""

from __future__ import annotations

import pytest
import torch
from gradient_oracle import batch, kept, pair_weight, relative_sets, triplet_weight
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from holdfast import mining
from holdfast.gradients import (
    CircularTripletWeight,
    CosineTripletWeight,
    NearIdeal,
    SigmoidPairWeight,
    directions,
)
from holdfast.gradients.triplets import TripletGeometry, geometry, others_of
from holdfast.gradients.weights import masks, pair_weights, triplet_weights
from holdfast.losses.comparison import joined
from holdfast.mining import Pairs, Triplets
from holdfast.sphere import pair_masks, similarity

SEEDS = st.integers(0, 10_000)


def vectors(seed: int, count: int = 40, dim: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(count, dim, generator=generator, dtype=torch.float64), dim=1)


@pytest.mark.parametrize("name", directions.registry.names())
@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_directions_have_unit_length(name: str, seed: int) -> None:
    a, p, n = vectors(seed), vectors(seed + 1), vectors(seed + 2)
    for move in directions.registry.get(name)()(a, p, n):
        torch.testing.assert_close(move.norm(dim=1), torch.ones(len(a), dtype=torch.float64))


@pytest.mark.parametrize("name", ["euc-orth", "cos-orth"])
@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_orthogonal_directions_leave_the_positive_pair_alone(name: str, seed: int) -> None:
    a, p, n = vectors(seed), vectors(seed + 1), vectors(seed + 2)
    moves = directions.registry.get(name)()(a, p, n)
    plain = directions.registry.get(name.removesuffix("-orth"))()(a, p, n)
    for move in (moves.e_n, moves.e_an):
        assert (move * (a - p)).sum(1).abs().max() < 1e-10
    assert torch.equal(moves.e_p, plain.e_p)
    assert torch.equal(moves.e_ap, plain.e_ap)
    assert ((plain.e_n * (a - p)).sum(1).abs() > 1e-3).any(), "there was something to take away"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_direction_that_does_not_exist_is_zero(dtype: torch.dtype) -> None:
    a, n = vectors(0).to(dtype), vectors(1).to(dtype)
    assert (directions.EuclideanDirection()(a, a, a).e_p == 0).all()
    assert (directions.EuclideanDirection()(a, n, n).e_n.norm(dim=1) > 0.99).all()
    # The negative is the positive: nothing of its direction is left across the line between anchor and positive.
    moves = directions.EuclideanOrthogonal()(a, n, n)
    assert (moves.e_n == 0).all()
    assert (moves.e_an == 0).all()
    # Anchor and positive coincide: there is no line, and nothing is taken away.
    assert torch.equal(directions.CosineOrthogonal()(a, a, n).e_n, directions.unit(a))


@pytest.mark.parametrize("name", ["euc", "cos"])
def test_effective_force_is_what_turns_a_vector(name: str) -> None:
    direction = directions.registry.get(name)()
    a, p, n = vectors(3), vectors(4), vectors(5)
    moves = direction(a, p, n)
    for move, at, other in ((moves.e_p, p, a), (moves.e_n, n, a)):
        across = move - (move * at).sum(1, keepdim=True) * at
        torch.testing.assert_close(across.norm(dim=1), direction.force((at * other).sum(1)))


@pytest.mark.parametrize("name", pair_weights.names())
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, per_class=st.integers(2, 4))
def test_pair_weights_equal_loops(name: str, seed: int, per_class: int) -> None:
    z, labels = batch(seed, per_class=per_class)
    triplets = mining.build("random")(z, labels, torch.Generator().manual_seed(seed))
    assert isinstance(triplets, Triplets)
    s = similarity(z)
    a, p, n = (z[index] for index in triplets)
    pull, push = pair_weights.get(name)()(geometry(a, p, n, others_of(triplets, s, *pair_masks(labels))))
    for row, (i, j, k) in enumerate(zip(*(index.tolist() for index in triplets), strict=True)):
        sets = relative_sets(s, labels, i, j, k)
        assert per_class > 2 or sets[0] == [], "a class of two has no other positive"
        expected = pair_weight(name, float(s[i, j]), float(s[i, k]), *sets)
        assert (float(pull[row]), float(push[row])) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_without_others_relative_weights_are_the_plain_ones() -> None:
    seen = TripletGeometry.at(torch.linspace(-1, 1, 9), torch.linspace(1, -1, 9))
    for relative, plain in (("sig-ms", "sig"), ("lin-ms", "lin")):
        got, expected = (pair_weights.get(name)()(seen) for name in (relative, plain))
        torch.testing.assert_close(got, expected)


def test_parameters_matter_and_are_checked() -> None:
    seen = TripletGeometry.at(torch.tensor([0.3]), torch.tensor([0.7]))
    assert SigmoidPairWeight(base=0.3)(seen)[0] == 0.5
    assert SigmoidPairWeight(beta=40.0)(seen)[1] > SigmoidPairWeight()(seen)[1]
    assert CosineTripletWeight(tau=5.0)(*seen[:2]) > CosineTripletWeight()(*seen[:2])
    for wrong in (
        lambda: SigmoidPairWeight(alpha=0),
        lambda: CircularTripletWeight(tau=-1),
    ):
        with pytest.raises(Exception, match="above zero"):
            wrong()


@settings(max_examples=60, deadline=None)
@given(near=st.floats(-1, 1), far=st.floats(-1, 1))
def test_triplet_weights_and_masks_equal_the_formulas(near: float, far: float) -> None:
    s_ap, s_an = torch.tensor([near, far], dtype=torch.float64)[:, None]
    for name in triplet_weights.names():
        got = float(triplet_weights.get(name)()(s_ap, s_an))
        assert got == pytest.approx(triplet_weight(name, near, far), rel=1e-12)
    for name in masks.names():
        assert bool(masks.get(name)()(s_ap, s_an)) == kept(name, near, far)


def test_the_second_mask_spares_easy_triplets() -> None:
    mask = NearIdeal()
    assert mask(torch.tensor(0.9), torch.tensor(0.1)), "an easy triplet keeps pulling its positive"
    assert not mask(torch.tensor(0.9), torch.tensor(0.8))
    assert not mask(torch.tensor(0.1), torch.tensor(0.0))


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, count=st.integers(0, 30))
def test_pairs_are_joined_into_every_triplet_of_an_anchor(seed: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    anchor, other = torch.randint(5, (2, count), generator=generator)
    same = torch.rand(count, generator=generator) < 0.5
    rows = list(zip(anchor.tolist(), other.tolist(), same.tolist(), strict=True))
    expected = [(a, p, n) for a, p, near in rows for b, n, also in rows if a == b and near and not also]
    found = joined(Pairs(anchor, other, same), 5)
    assert sorted(zip(*(index.tolist() for index in found), strict=True)) == sorted(expected)
