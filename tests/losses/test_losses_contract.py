"""What every loss promises."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_batches import batch, every_pair, every_triplet, value_and_gradient

from holdfast import losses, mining
from holdfast.errors import DataError
from holdfast.losses import Criterion, Encoded, Loss, PairLoss, TripletLoss, TupleLoss
from holdfast.mining import Pairs, Triplets
from holdfast.registry import Registry

pytest.importorskip("pytorch_metric_learning")

CLASS_LOSSES = ["arcface", "normalized-softmax", "proxy-anchor", "proxy-nca", "soft-triple"]
TUPLE_LOSSES = [
    name for name in losses.names() if name not in CLASS_LOSSES and isinstance(losses.build(name), TupleLoss)
]
TRIPLET_LOSSES = [name for name in TUPLE_LOSSES if isinstance(losses.build(name), TripletLoss)]
PAIR_LOSSES = [name for name in TUPLE_LOSSES if isinstance(losses.build(name), PairLoss)]
ONE_KIND = ["contrastive", "multi-similarity", "binomial-deviance", "energy"]
"""Losses that learn from one kind of pair alone; the others compare the two kinds."""

EMPTY = torch.zeros(0, dtype=torch.long)


def build(name: str, **arguments: Any) -> Loss:
    """A loss for the five classes and six dims of the test batches, over eight pooled features."""
    known = inspect.signature(Registry.of(Loss).get(name)).parameters  # type: ignore[union-attr]
    sizes = {key: value for key, value in {"classes": 5, "dim": 6, "features": 8}.items() if key in known}
    return losses.build(name, **sizes, **arguments)


def test_every_name_of_the_specification_is_there() -> None:
    assert set(losses.names()) >= {
        "linear", "contrastive", "triplet", "triplet-cosine", "margin", "multi-similarity", "binomial-deviance",
        "lifted-structure", "circle", "n-pair", "info-nce", "sup-con", "sct", "arcface", "proxy-nca", "proxy-anchor",
        "soft-triple", "normalized-softmax", "trimmed", "gradient", "s2sd",
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in losses.names() if build(name).exact])
def test_gradient_matches_finite_differences(name: str) -> None:
    """Losses that say that their gradient is not the derivative of their value have tests of their own."""
    z, labels = batch()
    z, loss = z.double(), build(name).double()
    _, gradient = value_and_gradient(loss, z, labels)
    assert gradient.norm() > 1e-3
    for seed in range(3):
        direction = torch.randn(z.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        step = 1e-6
        up, _ = value_and_gradient(loss, z + step * direction, labels)
        down, _ = value_and_gradient(loss, z - step * direction, labels)
        torch.testing.assert_close((gradient * direction).sum(), (up - down) / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", losses.names())
def test_float32_under_bfloat16_autocast(name: str) -> None:
    z, labels = batch()
    loss, half = build(name), z.bfloat16()
    expected, _ = value_and_gradient(loss, half.float(), labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value, gradient = value_and_gradient(loss, half, labels)
    assert value.dtype == torch.float32
    assert gradient.isfinite().all()
    torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("name", losses.names())
def test_finite_when_embeddings_coincide(name: str) -> None:
    z, labels = batch()
    value, gradient = value_and_gradient(build(name), z[:1].expand_as(z), labels)
    assert value.ndim == 0
    assert value.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("name", losses.names())
@pytest.mark.parametrize(
    "tuples",
    [Triplets(EMPTY, EMPTY, EMPTY), Pairs(EMPTY, EMPTY, EMPTY.bool())],
    ids=["triplets", "pairs"],
)
def test_no_tuples_cost_nothing_but_keep_the_graph(name: str, tuples: Triplets | Pairs) -> None:
    if name == "trimmed" and isinstance(tuples, Pairs):
        pytest.skip("its inner loss learns from triplets")
    z, labels = batch()
    value, gradient = value_and_gradient(build(name), z, labels, tuples)
    assert value == 0
    assert (gradient == 0).all()


@pytest.mark.parametrize("name", [name for name in losses.names() if name not in CLASS_LOSSES])
@pytest.mark.parametrize("kind", ["no positives", "no negatives"])
def test_batch_with_one_kind_of_pair(name: str, kind: str) -> None:
    z, _ = batch()
    labels = torch.arange(len(z)) if kind == "no positives" else torch.zeros(len(z), dtype=torch.long)
    loss = losses.build(name)
    if loss.miner is not None and kind == "no negatives":
        with pytest.raises(DataError, match="same label"):
            value_and_gradient(loss, z, labels)
        return
    value, gradient = value_and_gradient(loss, z, labels)
    assert gradient.isfinite().all()
    if name not in ONE_KIND and (name, kind) != ("sup-con", "no negatives"):
        assert value == 0
        assert (gradient == 0).all()


@pytest.mark.parametrize("name", [name for name in losses.names() if name not in ("n-pair", "trimmed")])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_order_of_the_batch_does_not_matter(name: str, seed: int) -> None:
    z, labels = batch(seed % 7)
    loss = build(name)
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
    value, gradient = value_and_gradient(loss, z, labels)
    moved_value, moved_gradient = value_and_gradient(loss, z[order], labels[order])
    torch.testing.assert_close(value, moved_value, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(gradient[order], moved_gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", TUPLE_LOSSES)
@pytest.mark.parametrize("source", ["all", "triplets", "pairs"])
def test_parts_add_up(name: str, source: str) -> None:
    z, labels = batch()
    tuples = {
        "all": None,
        "triplets": mining.build("hardest")(z, labels, torch.Generator().manual_seed(1)),
        "pairs": mining.build("multi-similarity")(z, labels),
    }[source]
    values, gradients = zip(
        *(value_and_gradient(build(name, part=part), z, labels, tuples) for part in ("both", "positive", "negative")),
        strict=True,
    )
    assert values[0] == values[1] == values[2]
    torch.testing.assert_close(gradients[0], gradients[1] + gradients[2], rtol=1e-4, atol=1e-6)
    assert gradients[1].norm() > 1e-4
    assert gradients[2].norm() > 1e-4


@pytest.mark.parametrize("name", [name for name in TUPLE_LOSSES if name != "n-pair"])
@pytest.mark.parametrize("enumerate_all", [every_triplet, every_pair])
def test_all_tuples_given_is_the_same_as_none_given(name: str, enumerate_all: Any) -> None:
    if enumerate_all is every_triplet and name in ("info-nce", "lifted-structure"):
        pytest.skip("a pair counts as often as triplets repeat it, as in pytorch-metric-learning")
    for unit in (True, False):
        z, labels = batch(1, unit=unit)
        loss = build(name)
        expected, gradient = value_and_gradient(loss, z, labels)
        value, given_gradient = value_and_gradient(loss, z, labels, enumerate_all(labels))
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(given_gradient, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", TRIPLET_LOSSES)
def test_pairs_stand_for_their_combinations(name: str) -> None:
    z, labels = batch(2)
    pairs = mining.build("multi-similarity", epsilon=-0.3)(z, labels)
    assert isinstance(pairs, Pairs)
    rows = [
        (a, p, n)
        for a, p, near in zip(*(index.tolist() for index in pairs), strict=True)
        for b, n, far_same in zip(*(index.tolist() for index in pairs), strict=True)
        if a == b and near and not far_same
    ]
    triplets = Triplets(*torch.tensor(rows).T)
    assert 0 < len(rows) < len(every_triplet(labels).anchor)
    loss = build(name)
    for one, two in zip(
        value_and_gradient(loss, z, labels, pairs), value_and_gradient(loss, z, labels, triplets), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_triplets_stand_for_their_pairs(name: str) -> None:
    z, labels = batch(3)
    triplets = mining.build("random")(z, labels, torch.Generator().manual_seed(0))
    assert isinstance(triplets, Triplets)
    anchor = torch.cat([triplets.anchor, triplets.anchor])
    other = torch.cat([triplets.positive, triplets.negative])
    pairs = Pairs(anchor, other, labels[anchor] == labels[other])
    (value, gradient), expected = (value_and_gradient(build(name), z, labels, tuples) for tuples in (pairs, triplets))
    torch.testing.assert_close(value, expected[0])
    torch.testing.assert_close(gradient, expected[1])
    assert value != value_and_gradient(build(name), z, labels)[0]


@pytest.mark.parametrize("name", TUPLE_LOSSES)
@pytest.mark.parametrize("miner", ["distance", "multi-similarity"])
def test_own_miner_is_the_same_as_its_tuples(name: str, miner: str) -> None:
    z, labels = batch(4)
    tuples = mining.build(miner)(z, labels, torch.Generator().manual_seed(9))
    expected, _ = value_and_gradient(build(name), z, labels, tuples)
    value, _ = value_and_gradient(build(name, miner=miner), z, labels, seed=9)
    assert value == expected


@pytest.mark.parametrize("name", losses.names())
def test_relevance_matrix(name: str) -> None:
    z, labels = batch(5)
    matrix = labels[:, None] == labels[None, :]
    if name in CLASS_LOSSES:
        with pytest.raises(DataError, match="relevance matrix"):
            build(name)(z, matrix)
        return
    loss = losses.build(name)
    value, gradient = value_and_gradient(loss, z, matrix)
    expected, expected_gradient = value_and_gradient(loss, z, labels)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("name", losses.names())
def test_state_round_trip(name: str) -> None:
    z, labels = batch(6)
    first, second = build(name), build(name)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(torch.randn_like(parameter))
    second.load_state_dict(first.state_dict())
    assert value_and_gradient(first, z, labels)[0] == value_and_gradient(second, z, labels)[0]


@pytest.mark.parametrize("name", losses.names())
def test_labels_must_fit_the_embeddings(name: str) -> None:
    z, labels = batch()
    with pytest.raises(DataError, match="give one label"):
        build(name)(z, labels[:-1])


def test_criterion_is_the_loss_by_default() -> None:
    z, labels = batch()
    criterion = Criterion(build("margin", miner="random"))
    assert [name for name, _ in criterion.named_parameters()] == ["loss.beta"]
    value = criterion(Encoded(z, z, labels), generator=torch.Generator().manual_seed(2))
    assert value == criterion.loss(z, labels, None, torch.Generator().manual_seed(2))
    triplets = mining.build("ephn")(z, labels)
    assert criterion(Encoded(z, z, labels), triplets) == criterion.loss(z, labels, triplets)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
@pytest.mark.parametrize("name", losses.names())
def test_labels_may_be_any_integers(name: str, dtype: torch.dtype) -> None:
    z, labels = batch()
    loss = build(name)
    expected, _ = value_and_gradient(loss, z, labels)
    value, _ = value_and_gradient(loss, z, labels.to(dtype))
    assert value == pytest.approx(expected)


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_trimming_nothing_keeps_how_often_a_pair_was_given(name: str) -> None:
    z, labels = batch()
    rows = labels.sort(stable=True).indices
    same = rows[:2].tolist()
    other = int((labels != labels[same[0]]).nonzero()[0])
    pairs = Pairs(torch.tensor(same[:1] * 4), torch.tensor([*same[1:] * 3, other]), torch.tensor([True] * 3 + [False]))
    loss = build(name)
    assert value_and_gradient(losses.Trimmed(loss, keep=1.0), z, labels, pairs)[0] == pytest.approx(
        value_and_gradient(loss, z, labels, pairs)[0]
    )
