"""Equality with pytorch-metric-learning in value and gradient, where it has the same loss under the same reduction."""

from __future__ import annotations

import pytest
import torch
from loss_batches import batch, value_and_gradient
from peer_losses import SAME, UNNORMALISED, assert_same, both, distances, peers, reducers, tangent

from holdfast import losses, mining
from holdfast.mining import Pairs, Triplets


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SAME)
def test_all_pairs_or_triplets(name: str, seed: int) -> None:
    ours, theirs = both(name, SAME[name])
    z, labels = batch(seed, classes=8, per_class=4, dim=32)
    value, gradient = value_and_gradient(ours, z, labels)
    peer_value, peer_gradient = value_and_gradient(theirs, z, labels)
    assert_same((value, tangent(z, gradient)), (peer_value, tangent(z, peer_gradient)))


@pytest.mark.parametrize("name", SAME)
def test_given_pairs(name: str) -> None:
    ours, theirs = both(name, SAME[name])
    z, labels = batch(3, classes=8, per_class=4, dim=32)
    pairs = mining.build("multi-similarity")(z, labels)
    assert isinstance(pairs, Pairs)
    near, far = pairs.same, ~pairs.same
    quadruple = (pairs.anchor[near], pairs.other[near], pairs.anchor[far], pairs.other[far])
    if name == "circle":  # the peer divides by all images, ours by the anchors with both kinds
        theirs.reducer = reducers.AvgNonZeroReducer()
    value, gradient = value_and_gradient(ours, z, labels, pairs)
    peer_value, peer_gradient = value_and_gradient(theirs, z, labels, quadruple)
    assert_same((value, tangent(z, gradient)), (peer_value, tangent(z, peer_gradient)))


@pytest.mark.parametrize("name", [name for name in SAME if name.split()[0] in ("triplet", "triplet-cosine", "margin")])
def test_given_triplets(name: str) -> None:
    ours, theirs = both(name, SAME[name])
    z, labels = batch(4, classes=8, per_class=4, dim=32)
    triplets = mining.build("semihard")(z, labels, torch.Generator().manual_seed(0))
    value, gradient = value_and_gradient(ours, z, labels, triplets)
    peer_value, peer_gradient = value_and_gradient(theirs, z, labels, tuple(triplets))
    assert_same((value, tangent(z, gradient)), (peer_value, tangent(z, peer_gradient)))


@pytest.mark.parametrize("name", UNNORMALISED)
def test_vectors_of_any_length(name: str) -> None:
    ours, theirs = both(name, UNNORMALISED[name])
    z, labels = batch(5, classes=6, per_class=4, dim=3, unit=False)
    assert_same(value_and_gradient(ours, z, labels), value_and_gradient(theirs, z, labels))


def test_n_pair_uses_the_first_two_of_each_class() -> None:
    z, labels = batch(6, classes=8, per_class=3, dim=32)
    theirs = peers.NPairsLoss(distance=distances.DotProductSimilarity(normalize_embeddings=False))
    assert_same(value_and_gradient(losses.build("n-pair"), z, labels), value_and_gradient(theirs, z, labels))


def test_margin_with_a_boundary_per_class_learns_it_as_the_peer_does() -> None:
    z, labels = batch(7, classes=5, per_class=4, dim=16)
    ours = losses.build("margin", classes=5)
    theirs = peers.MarginLoss(num_classes=5, learn_beta=True, reducer=reducers.AvgNonZeroReducer())
    start = torch.tensor([1.0, 1.1, 1.2, 1.3, 1.4])
    for loss in (ours, theirs):
        loss.beta.data.copy_(start)
    for tuples in (None, mining.build("distance")(z, labels, torch.Generator().manual_seed(0))):
        assert tuples is None or isinstance(tuples, Triplets)
        value, expected = ours(z, labels, tuples), theirs(z, labels, tuples)
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-5)
        (gradient,), (peer_gradient,) = (
            torch.autograd.grad(cost, loss.beta) for cost, loss in ((value, ours), (expected, theirs))
        )
        torch.testing.assert_close(gradient, peer_gradient, rtol=1e-5, atol=1e-5)
