"""Loops written from the formulas, for what has no peer or is peculiar to a loss."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_batches import batch, every_triplet, value_and_gradient
from torch import Tensor
from torch.nn import functional as F

from holdfast import losses, mining
from holdfast.errors import DataError, RecipeError
from holdfast.mining import Triplets
from holdfast.sphere import distances, masked_mean, squared_distances


def triplets_of(labels: Tensor) -> list[tuple[int, int, int]]:
    return [
        (a, p, n)
        for a, p, n in itertools.product(range(len(labels)), repeat=3)
        if a != p and labels[a] == labels[p] and labels[a] != labels[n]
    ]


def similarity(z: Tensor, i: int, j: int) -> float:
    return float(z[i] @ z[j])


def distance(z: Tensor, i: int, j: int) -> float:
    return float((z[i] - z[j]).norm())


def average(values: list[float]) -> float:
    return sum(values) / len(values)


def assert_value(loss: losses.Loss, z: Tensor, labels: Tensor, expected: float) -> None:
    torch.testing.assert_close(float(loss(z.double(), labels)), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("unit", [True, False])
def test_linear(unit: bool) -> None:
    z, labels = batch(0, unit=unit)
    z = z.double()
    costs = [distance(z, a, p) ** 2 - distance(z, a, n) ** 2 for a, p, n in triplets_of(labels)]
    assert_value(losses.build("linear"), z, labels, average(costs))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), classes=st.integers(2, 6), per_class=st.integers(2, 6), dim=st.integers(2, 8))
def test_linear_is_alignment_and_unbiasedness(seed: int, classes: int, per_class: int, dim: int) -> None:
    """The identity counts an image among its own positives; the loss does not."""
    z, labels = batch(seed, classes=classes, per_class=per_class, dim=dim)
    z = F.normalize(z.double(), dim=1)
    same = labels[:, None] == labels
    with_self = masked_mean(squared_distances(z), same)
    alignment = masked_mean(squared_distances(z), same & ~torch.eye(len(z), dtype=torch.bool))
    unbiased = z.mean(0).square().sum()
    expected = classes / (classes - 1) * (2 * unbiased + with_self - 2)
    linear = losses.build("linear")(z, labels)
    torch.testing.assert_close(linear - alignment + with_self, expected)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    margin=st.sampled_from([0.0, 0.1, 0.5, 3.0]),
    squared=st.booleans(),
    reduction=st.sampled_from(["all", "nonzero"]),
    coinciding=st.booleans(),
)
def test_triplet(seed: int, margin: float, squared: bool, reduction: str, coinciding: bool) -> None:
    z, labels = batch(seed, classes=3 + seed % 3, per_class=1 + seed % 4)
    z = z.double()
    if coinciding:  # ties between distances, and distances of zero
        z = z[torch.arange(len(z)) // 2]
    power = 2 if squared else 1
    costs = [
        max(0.0, distance(z, a, p) ** power - distance(z, a, n) ** power + margin) for a, p, n in triplets_of(labels)
    ]
    counted = [cost for cost in costs if cost > 1e-12] if reduction == "nonzero" else costs
    loss = losses.build("triplet", margin=margin, squared=squared, reduction=reduction)
    if reduction == "all" or not coinciding:  # rounding decides whether a tie is counted among the nonzero
        torch.testing.assert_close(float(loss(z, labels)), average(counted) if counted else 0.0, rtol=1e-6, atol=1e-7)
    assert value_and_gradient(loss, z, labels)[1].isfinite().all()


def test_given_triplets_cost_what_torch_says() -> None:
    """Torch adds 1e-6 to each difference, which gives a positive that coincides with its anchor a gradient."""
    z, labels = batch(0, classes=4, per_class=2)
    z = z.double()
    z[1] = z[0]
    rows = torch.arange(len(z))
    triplets = Triplets(rows, rows // 2 * 2, (rows + 2) % len(z))
    ours, theirs = z.clone().requires_grad_(), z.clone().requires_grad_()
    found = losses.build("triplet", margin=3.0)(ours, labels, triplets)
    wanted = F.triplet_margin_loss(*(theirs[rows] for rows in triplets), margin=3.0)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)
    torch.testing.assert_close(torch.autograd.grad(found, ours), torch.autograd.grad(wanted, theirs))
    alone = losses.build("triplet", margin=3.0)(ours, labels, Triplets(*torch.tensor([[0], [1], [3]])))
    assert float(torch.autograd.grad(alone, ours)[0][1].norm()) == pytest.approx(1)


def test_triplet_counts_agree_where_margins_are_met_to_the_last_bit() -> None:
    """A triplet that rounding opens for one of its pairs only would change the value by a whole distance."""
    z, labels = batch(2, classes=20, per_class=4, dim=2)
    grid = (z * 8).round()  # so coarse that distances repeat exactly
    lengths = distances(grid).unique()
    for shorter, longer in itertools.pairwise(lengths[1::3].tolist()):
        # One bit off the difference: adding it to one distance and taking it from the other round differently.
        loss = losses.build("triplet", margin=(longer - shorter) * (1 + 1e-7))
        expected, _ = value_and_gradient(loss, grid, labels, every_triplet(labels))
        torch.testing.assert_close(value_and_gradient(loss, grid, labels)[0], expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("tau", [1.0, 10.0])
def test_triplet_cosine(tau: float) -> None:
    z, labels = batch(3)
    z = z.double()
    costs = []
    for a, p, n in triplets_of(labels):
        near, far = math.exp(tau * similarity(z, a, p)), math.exp(tau * similarity(z, a, n))
        costs.append(-math.log(near / (near + far)))
    assert_value(losses.build("triplet-cosine", tau=tau), z, labels, average(costs))


def test_selectively_contrastive() -> None:
    z, labels = batch(4)
    z = z.double()
    costs, hard = [], 0
    for a, p, n in triplets_of(labels):
        near, far = similarity(z, a, p), similarity(z, a, n)
        hard += far > near
        costs.append(0.7 * far if far > near else math.log(1 + math.exp(2 * (far - near))))
    assert 0 < hard < len(costs)
    assert_value(losses.build("sct", weight=0.7, tau=2.0), z, labels, average(costs))


def test_selectively_contrastive_does_not_pull_in_hard_triplets() -> None:
    z = torch.nn.functional.normalize(torch.tensor([[1.0, 0, 0], [0.2, 1, 0], [1, 0.1, 0.3]]), dim=1)
    labels = torch.tensor([0, 0, 1])
    hard = Triplets(*torch.tensor([[0], [1], [2]]))
    _, gradient = value_and_gradient(losses.build("sct"), z, labels, hard)
    assert (gradient[1] == 0).all()
    torch.testing.assert_close(gradient[2], z[0])


def test_margin_averages_over_active_triplets() -> None:
    z, labels = batch(5)
    z = z.double()
    loss = losses.build("margin", beta=0.9, margin=0.1)
    costs = [
        max(0.0, distance(z, a, p) - 0.9 + 0.1) + max(0.0, 0.9 - distance(z, a, n) + 0.1)
        for a, p, n in triplets_of(labels)
    ]
    active = [cost for cost in costs if cost > 0]
    assert 0 < len(active) < len(costs)
    torch.testing.assert_close(float(loss(z, labels).detach()), average(active), rtol=1e-6, atol=1e-6)


def test_margin_boundary_is_trained_per_class_only_when_asked() -> None:
    z, labels = batch(6)
    assert losses.build("margin").beta.shape == (1,)
    assert losses.build("margin", classes=5).beta.shape == (5,)
    fixed = losses.build("margin", learn_beta=False)
    assert not any(parameter.requires_grad for parameter in fixed.parameters())
    assert "beta" in fixed.state_dict()
    per_class = losses.build("margin", classes=3)
    with pytest.raises(DataError, match="label 4 is outside this loss's 3 classes"):
        per_class(z, labels)
    with pytest.raises(DataError, match="relevance matrix"):
        per_class(z, labels[:, None] == labels[None, :])


def test_binomial_deviance() -> None:
    z, labels = batch(7)
    z = z.double()
    anchors = []
    for a in range(len(z)):
        others = [j for j in range(len(z)) if j != a]
        near = [math.log(1 + math.exp(-2 * (similarity(z, a, j) - 0.5))) / 2 for j in others if labels[j] == labels[a]]
        far = [math.log(1 + math.exp(10 * (similarity(z, a, j) - 0.5))) / 10 for j in others if labels[j] != labels[a]]
        anchors.append(average(near) + average(far))
    assert_value(losses.build("binomial-deviance"), z, labels, average(anchors))


def test_binomial_deviance_weighs_one_triplet_by_its_sigmoids() -> None:
    z, labels = batch(8)
    one = Triplets(
        *torch.tensor([[0], [int((labels == labels[0]).nonzero()[1])], [int((labels != labels[0]).nonzero()[0])]])
    )
    a, p, n = (int(index) for index in one)
    _, gradient = value_and_gradient(losses.build("binomial-deviance"), z, labels, one)
    torch.testing.assert_close(gradient[p], -z[a] / (1 + math.exp(2 * (similarity(z, a, p) - 0.5))))
    torch.testing.assert_close(gradient[n], z[a] / (1 + math.exp(-10 * (similarity(z, a, n) - 0.5))))


def test_circle_gradient_holds_the_weights_fixed() -> None:
    z, labels = batch(9)
    z = z.double()
    fixed = z @ z.T
    same = labels[:, None] == labels[None, :]
    itself = torch.eye(len(z), dtype=torch.bool)

    def written_out(vectors: Tensor) -> Tensor:
        s = vectors @ vectors.T
        costs = []
        for a in range(len(z)):
            near = [
                -80 * max(0.0, float(1.4 - fixed[a, j])) * (s[a, j] - 0.6)
                for j in range(len(z))
                if (same & ~itself)[a, j]
            ]
            far = [80 * max(0.0, float(fixed[a, j] + 0.4)) * (s[a, j] - 0.4) for j in range(len(z)) if not same[a, j]]
            exponent = torch.stack(near).logsumexp(0) + torch.stack(far).logsumexp(0)
            costs.append(torch.logaddexp(exponent, torch.zeros(())))
        return torch.stack(costs).mean()

    leaf = z.clone().requires_grad_()
    (expected,) = torch.autograd.grad(written_out(leaf), leaf)
    value, gradient = value_and_gradient(losses.build("circle"), z, labels)
    torch.testing.assert_close(value, written_out(z))
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("keep", [0.15, 0.5, 0.9, 1.0])
def test_trimmed_keeps_the_cheapest_triplets(keep: float) -> None:
    z, labels = batch(10)
    triplets = mining.build("random")(z, labels, torch.Generator().manual_seed(0))
    assert isinstance(triplets, Triplets)
    costs = sorted(
        max(0.0, distance(z, a, p) - distance(z, a, n) + 3.0)
        for a, p, n in zip(*(index.tolist() for index in triplets), strict=True)
    )
    loss = losses.build("trimmed", keep=keep, loss={"name": "triplet", "margin": 3.0})
    expected = average(costs[: round(keep * len(costs))])
    torch.testing.assert_close(float(loss(z, labels, triplets)), expected, rtol=1e-5, atol=1e-6)


def test_trimmed_margin_averages_what_is_active_among_the_kept() -> None:
    z, labels = batch(11)
    inner = losses.build("margin", beta=0.9, margin=0.1, miner="random")
    trimmed = losses.build("trimmed", keep=0.6, loss=inner)
    terms = inner.unreduced(z, labels, None, torch.Generator().manual_seed(1))[0]
    kept = terms.values.sort().values[: round(0.6 * len(z))]
    assert (kept == 0).any()
    assert (kept > 0).any()
    value = trimmed(z, labels, None, torch.Generator().manual_seed(1))
    torch.testing.assert_close(value, kept[kept > 0].mean())


def test_trimmed_ranks_anchors_pairs_or_images_of_other_losses() -> None:
    z, labels = batch(12)
    for name in ("multi-similarity", "contrastive", "info-nce", "sup-con"):
        full, half = losses.build(name), losses.build("trimmed", keep=0.5, loss=name)
        assert 0 < half(z, labels) < full(z, labels)


def test_trimmed_refuses_what_it_cannot_rank() -> None:
    z, labels = batch(13)
    with pytest.raises(RecipeError, match="triplet miner"):
        losses.build("trimmed", loss="triplet")(z, labels)
    with pytest.raises(RecipeError, match="Trimmed"):
        losses.build("trimmed", loss="trimmed")
    with pytest.raises(RecipeError, match="keep must be"):
        losses.build("trimmed", keep=0)


@pytest.mark.parametrize(
    ("name", "argument"),
    [("info-nce", "temperature"), ("circle", "gamma"), ("multi-similarity", "alpha"), ("sct", "tau")],
)
def test_scales_must_be_above_zero(name: str, argument: str) -> None:
    with pytest.raises(RecipeError, match=f"{argument} must be above zero"):
        losses.build(name, **{argument: 0.0})
