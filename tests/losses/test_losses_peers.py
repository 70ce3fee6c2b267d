"""Equality with pytorch-metric-learning in value and gradient, where it has the same loss under the same reduction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from loss_batches import batch, value_and_gradient

from holdfast import losses, mining
from holdfast.losses import Loss
from holdfast.mining import Pairs, Triplets

peers = pytest.importorskip("pytorch_metric_learning.losses")
distances = pytest.importorskip("pytorch_metric_learning.distances")
reducers = pytest.importorskip("pytorch_metric_learning.reducers")


def mean() -> Any:
    return reducers.MeanReducer()


def euclidean(power: int = 1, unit: bool = True) -> Any:
    return distances.LpDistance(power=power, normalize_embeddings=unit)


def soft_triplet(tau: float) -> Any:
    """Softplus of similarity differences; τ is reached by scaling unit vectors before a dot product."""
    inner = peers.TripletMarginLoss(
        margin=0, smooth_loss=True, distance=distances.DotProductSimilarity(normalize_embeddings=False), reducer=mean()
    )
    return Scaled(inner, math.sqrt(tau))


class Scaled(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, z: torch.Tensor, labels: torch.Tensor, tuples: Any = None) -> torch.Tensor:
        value: torch.Tensor = self.inner(z * self.factor, labels, tuples)
        return value


Pair = tuple[dict[str, Any], Callable[[], Any]]
SAME: dict[str, Pair] = {
    "contrastive": ({"margin": 1.5}, lambda: peers.ContrastiveLoss(neg_margin=1.5, distance=euclidean(2))),
    "triplet": ({}, lambda: peers.TripletMarginLoss(margin=0.2, reducer=mean())),
    "triplet squared": (
        {"squared": True, "margin": 0.0},
        lambda: peers.TripletMarginLoss(margin=0.0, distance=euclidean(2), reducer=mean()),
    ),
    "triplet nonzero": ({"reduction": "nonzero"}, lambda: peers.TripletMarginLoss(margin=0.2)),
    "triplet-cosine": ({"tau": 4.0}, lambda: soft_triplet(4.0)),
    "margin": ({}, lambda: peers.MarginLoss(reducer=reducers.AvgNonZeroReducer())),
    "multi-similarity": ({}, lambda: peers.MultiSimilarityLoss(beta=40)),
    "multi-similarity mined": (
        {"reduction": "mined"},
        lambda: peers.MultiSimilarityLoss(beta=40, reducer=reducers.AvgNonZeroReducer()),
    ),
    "lifted-structure": ({}, peers.LiftedStructureLoss),
    "circle": ({}, lambda: peers.CircleLoss(reducer=mean())),
    "info-nce": ({}, peers.NTXentLoss),
    "sup-con": ({}, peers.SupConLoss),
}
UNNORMALISED: dict[str, Pair] = {
    "contrastive": (
        {"margin": 3.0},
        lambda: peers.ContrastiveLoss(neg_margin=3.0, distance=euclidean(2, unit=False)),
    ),
    "triplet": ({}, lambda: peers.TripletMarginLoss(margin=0.2, distance=euclidean(unit=False), reducer=mean())),
    "margin": ({}, lambda: peers.MarginLoss(reducer=reducers.AvgNonZeroReducer(), distance=euclidean(unit=False))),
    "lifted-structure": ({}, lambda: peers.LiftedStructureLoss(distance=euclidean(unit=False))),
}


def both(name: str, pair: Pair) -> tuple[Loss, Any]:
    arguments, peer = pair
    return losses.build(name.split()[0], **arguments), peer()


def assert_same(ours: tuple[torch.Tensor, torch.Tensor], theirs: tuple[torch.Tensor, torch.Tensor]) -> None:
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-5, atol=1e-5)


def tangent(z: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The part along the sphere: the peer normalises its input once more, so it has no other."""
    return gradient - (gradient * z).sum(1, keepdim=True) * z


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
