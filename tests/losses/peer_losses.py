"""Losses of pytorch-metric-learning that equal ours, and how to compare the two."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from holdfast import losses
from holdfast.losses import Loss

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
