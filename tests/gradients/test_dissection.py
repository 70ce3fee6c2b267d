"""Taking losses apart finds what they were made of."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from gradient_oracle import batch, direct_gradient, pair_weight, triplet_weight
from torch import Tensor
from torch.nn.functional import normalize, softplus

from holdfast import gradients, losses, mining
from holdfast.errors import DataError
from holdfast.gradients import RULES
from holdfast.mining import Triplets


def overlapping(seed: int = 0) -> tuple[Tensor, Tensor]:
    """A batch with hard and easy triplets and with other pairs to compare with."""
    return batch(seed, classes=6, per_class=4, dim=6)


def circle(z: Tensor, labels: Tensor, triplets: Triplets) -> Tensor:
    a, p, n = (z[index] for index in triplets)
    s_ap, s_an = (a * p).sum(1), (a * n).sum(1)
    return softplus(s_an.square() - s_ap * (2 - s_ap)).mean()


TRUE_LOSSES: dict[str, tuple[Callable[..., Tensor], float]] = {
    "triplet-euclidean": (losses.build("triplet", squared=True, margin=0.5), 4.0),
    "triplet-cosine": (losses.build("triplet-cosine"), 1.0),
    "binomial-deviance": (losses.build("binomial-deviance"), 2.0),
    "circle": (circle, 2.0),
}


@pytest.mark.parametrize("name", TRUE_LOSSES)
def test_the_loss_behind_a_rule_is_recognised(name: str) -> None:
    z, labels = overlapping()
    loss, scale = TRUE_LOSSES[name]
    found = gradients.dissect(loss, z, labels)
    assert found.rule == name
    assert found.components == RULES[name]  # type: ignore[index]
    assert found.rules[name] == pytest.approx((scale, 0), abs=1e-9)
    assert found.directions[found.components.direction] < 1e-9
    assert min(value for key, value in found.directions.items() if key != found.components.direction) > 0.05
    assert found.elsewhere == pytest.approx(0, abs=1e-6)
    assert not found.tangential
    assert f"nearest named rule: {name}" in str(found)
    for row in found.active.nonzero().squeeze(1).tolist():
        s_ap, s_an = float(found.s_ap[row]), float(found.s_an[row])
        pull, push = pair_weight(found.components.pair, s_ap, s_an, [], [])
        assert (float(found.positive[row]), float(found.negative[row])) == pytest.approx((pull, push), abs=1e-6)
        assert float(found.triplet[row]) == pytest.approx(triplet_weight(found.components.triplet, s_ap, s_an))


def test_a_hinge_leaves_triplets_idle() -> None:
    z, labels = overlapping()
    found = gradients.dissect(losses.build("triplet", squared=True, margin=0.1), z, labels)
    a, p, n = (z[index] for index in found.triplets)
    expected = (a - p).square().sum(1) - (a - n).square().sum(1) + 0.1 > 0
    assert torch.equal(found.active, expected)
    assert 0 < expected.sum() < len(expected)
    assert found.rule == "triplet-euclidean"
    with pytest.raises(DataError, match="no gradient"):
        gradients.dissect(losses.build("triplet", margin=-3.0), z, labels)


@pytest.mark.parametrize("name", gradients.names())
def test_every_rule_finds_itself(name: str) -> None:
    z, labels = overlapping(1)
    found = gradients.dissect(gradients.named(name), z, labels)
    assert (found.rule, found.components) == (name, RULES[name])  # type: ignore[index]
    assert found.match == pytest.approx((1, 0), abs=1e-9)


def test_single_precision_does_not_blur_the_answer() -> None:
    z, labels = overlapping(1)
    found = gradients.dissect(losses.build("triplet", squared=True, margin=9), z.float(), labels)
    assert found.rules["triplet-euclidean"] == pytest.approx((4, 0), abs=1e-6)
    assert found.components == RULES["triplet-euclidean"]


def test_what_is_measured_is_the_gradient_itself() -> None:
    z, labels = overlapping(2)
    triplets = mining.build("random")(z, labels, torch.Generator().manual_seed(3))
    assert isinstance(triplets, Triplets)
    found = gradients.dissect(gradients.named("dr-ms"), z, labels, triplets)
    for row in range(len(triplets.anchor)):
        one = Triplets(*(index[row : row + 1] for index in triplets))
        expected = direct_gradient("cos-orth", "sig-ms", "con", None, z, labels, one)
        assert float(found.pull[row]) == pytest.approx(float(expected[one.positive].norm()))
        assert float(found.push[row]) == pytest.approx(float(expected[one.negative].norm()))


def test_a_selective_loss_is_nearest_to_the_selective_rule() -> None:
    found = gradients.dissect(losses.build("sct"), *overlapping())
    assert found.rule == "sc-triplet"
    assert (found.pull[found.s_an > found.s_ap] == 0).all()
    assert 0.01 < found.rules["sc-triplet"].residual < 0.5, "its weight of hard triplets is another"


def test_losses_that_normalise_are_compared_along_the_sphere() -> None:
    z, labels = overlapping()

    def normalising(vectors: Tensor, *rest: object) -> Tensor:
        value: Tensor = losses.build("triplet-cosine")(normalize(3 * vectors, dim=1), *rest)
        return value

    found = gradients.dissect(normalising, z, labels)
    assert found.tangential
    assert found.components == RULES["triplet-cosine"]
    assert found.match.residual < 1e-9
    assert "along the sphere" in str(found)


def test_losses_of_pytorch_metric_learning() -> None:
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    found = gradients.dissect(peers.TripletMarginLoss(margin=5), *overlapping())
    assert tuple(found.components) == ("euc", "con", "con", None)
    with pytest.raises(DataError, match="only losses of holdfast"):
        gradients.dissect(peers.TripletMarginLoss(), *overlapping(), context="anchor")


def test_with_all_pairs_of_the_anchor_relative_weights_show() -> None:
    z, labels = overlapping()
    alpha, beta, base = 2.0, 10.0, 0.5
    found = gradients.dissect(losses.build("multi-similarity", beta=beta), z, labels, context="anchor")
    s = z @ z.T
    rows = zip(*(index.tolist() for index in found.triplets), strict=True)
    for row, (a, p, n) in enumerate(rows):
        pulls = {i: math.exp(-alpha * (s[a, i] - base)) for i in range(len(z)) if i != a and labels[i] == labels[a]}
        pushes = {i: math.exp(beta * (s[a, i] - base)) for i in range(len(z)) if labels[i] != labels[a]}
        pull, push = pulls[p] / (1 + sum(pulls.values())), pushes[n] / (1 + sum(pushes.values()))
        measured = float(found.pull[row]), float(found.push[row])
        assert measured == pytest.approx((pull / len(z), push / len(z)))
    assert found.elsewhere > 0.1
    assert "outside the triplet" in str(found)


def test_a_batch_without_triplets_is_refused() -> None:
    z, labels = overlapping()
    with pytest.raises(DataError, match="no triplet"):
        gradients.dissect(losses.build("triplet"), z, torch.arange(len(labels)))


def test_a_loss_with_a_memory_is_refused_and_keeps_it() -> None:
    z, labels = overlapping()
    loss = losses.build("contrastive", memory=2 * len(z))
    loss(z, labels)
    with pytest.raises(DataError, match="without memory"):
        gradients.dissect(loss, z, labels)
    assert len(loss.queue) == len(z)
