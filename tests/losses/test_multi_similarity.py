"""Multi-similarity's two averages against a loop over anchors, in every way the loss can be worked out."""

from __future__ import annotations

import math

import pytest
import torch
from loss_batches import batch, value_and_gradient
from torch import Tensor

from holdfast import losses, mining, pair_matrix
from holdfast.mining import Triplets

ALPHA, BETA, BASE, EPSILON = 2.0, 40.0, 0.5, 0.1


def anchors(z: Tensor, labels: Tensor, mined: bool = True, part: str = "both") -> list[Tensor]:
    """The cost of each anchor that has a positive and a negative pair, one anchor after another."""
    s = z @ z.T
    constant = s.detach()
    costs = []
    for i in range(len(z)):
        near = [j for j in range(len(z)) if j != i and labels[j] == labels[i]]
        far = [j for j in range(len(z)) if labels[j] != labels[i]]
        if mined and near:
            least, most = min(constant[i, near]), max(constant[i, far])
            near, far = (
                [j for j in near if constant[i, j] - EPSILON < most],
                [j for j in far if constant[i, j] + EPSILON > least],
            )
        if not near or not far:
            continue
        positives = (constant if part == "negative" else s)[i, near]
        negatives = (constant if part == "positive" else s)[i, far]
        pull = torch.log1p(torch.exp(-ALPHA * (positives - BASE)).sum()) / ALPHA
        push = torch.log1p(torch.exp(BETA * (negatives - BASE)).sum()) / BETA
        costs.append(pull + push)
    return costs


def clusters(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Classes so far apart that some anchors have no pair, and one image that is alone in its class."""
    z, labels = batch(seed, classes=8, per_class=3, dim=4)
    labels[0] = 99
    return z.double(), labels


@pytest.mark.parametrize("part", ["both", "positive", "negative"])
@pytest.mark.parametrize("large", [1, 10**9])
@pytest.mark.parametrize("given", [False, True])
def test_mined_averages_over_anchors_that_have_pairs(
    part: str, large: int, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_matrix, "LARGE", large)
    monkeypatch.setattr(pair_matrix, "SMALL", large)
    z, labels = clusters()
    leaf = z.clone().requires_grad_()
    costs = torch.stack(anchors(leaf, labels, part=part))
    assert 3 < len(costs) < len(z) - 3
    miner = mining.build("multi-similarity", epsilon=EPSILON)
    for reduction, number in (("mined", len(costs)), ("all", len(z))):
        expected = costs.sum() / number
        (gradient,) = torch.autograd.grad(expected, leaf, retain_graph=True)
        loss = losses.build("multi-similarity", miner=None if given else miner, reduction=reduction, part=part)
        value, found = value_and_gradient(loss, z, labels, miner(z, labels) if given else None)
        torch.testing.assert_close(value, expected.detach())
        torch.testing.assert_close(found, gradient)
        with torch.no_grad():
            torch.testing.assert_close(loss(z, labels, miner(z, labels) if given else None), expected.detach())


@pytest.mark.parametrize("large", [1, 10**9])
def test_without_a_miner_images_alone_in_their_class_do_not_count(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_matrix, "LARGE", large)
    monkeypatch.setattr(pair_matrix, "SMALL", large)
    z, labels = clusters(1)
    leaf = z.clone().requires_grad_()
    costs = torch.stack(anchors(leaf, labels, mined=False))
    assert len(costs) == len(z) - 1
    (gradient,) = torch.autograd.grad(costs.mean(), leaf)
    value, found = value_and_gradient(losses.build("multi-similarity", reduction="mined"), z, labels)
    torch.testing.assert_close(value, costs.mean().detach())
    torch.testing.assert_close(found, gradient)


def test_an_anchor_with_pairs_of_one_kind_only_does_not_count() -> None:
    z, labels = clusters(2)
    pairs = mining.build("multi-similarity", epsilon=EPSILON)(z, labels)
    costs = anchors(z, labels)
    without = pairs._replace(**{name: getattr(pairs, name)[~pairs.same] for name in pairs._fields})
    assert value_and_gradient(losses.build("multi-similarity", reduction="mined"), z, labels, without)[0] == 0
    assert value_and_gradient(losses.build("multi-similarity"), z, labels, without)[0] > 0
    trimmed = losses.build("trimmed", keep=0.5, loss={"name": "multi-similarity", "reduction": "mined"})
    kept = sorted(float(cost) for cost in costs)[: round(len(costs) * 0.5)]
    assert math.isclose(float(trimmed(z, labels, pairs)), sum(kept) / len(kept), rel_tol=1e-9)


def test_triplets_count_their_anchors() -> None:
    z, labels = clusters(3)
    anchor = 5
    near = next(j for j in range(len(z)) if j != anchor and labels[j] == labels[anchor])
    far = next(j for j in range(len(z)) if labels[j] != labels[anchor])
    one = Triplets(*torch.tensor([[anchor], [near], [far]]))
    mined, every = (
        float(value_and_gradient(losses.build("multi-similarity", reduction=reduction), z, labels, one)[0])
        for reduction in ("mined", "all")
    )
    pull = math.log1p(math.exp(-ALPHA * (float(z[anchor] @ z[near]) - BASE))) / ALPHA
    push = math.log1p(math.exp(BETA * (float(z[anchor] @ z[far]) - BASE))) / BETA
    assert math.isclose(mined, pull + push, rel_tol=1e-9)
    assert math.isclose(every * len(z), mined, rel_tol=1e-9)
