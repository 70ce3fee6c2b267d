"""Losses with parameters per class."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
import torch
from loss_batches import batch, value_and_gradient

from holdfast import losses, mining
from holdfast.errors import DataError, ModelError

peers = pytest.importorskip("pytorch_metric_learning.losses")

PEERS: dict[str, Any] = {
    "arcface": lambda: peers.ArcFaceLoss(5, 6, margin=math.degrees(0.5), scale=16),
    "normalized-softmax": lambda: peers.NormalizedSoftmaxLoss(5, 6),
    "proxy-anchor": lambda: peers.ProxyAnchorLoss(5, 6),
    "proxy-nca": lambda: peers.ProxyNCALoss(5, 6),
    "soft-triple": lambda: peers.SoftTripleLoss(5, 6),
}


def built(name: str) -> losses.Loss:
    torch.manual_seed(3)
    return losses.build(name, classes=5, dim=6)


@pytest.mark.parametrize("name", PEERS)
def test_equals_the_library(name: str) -> None:
    z, labels = batch()
    z, labels = z[labels < 4], labels[labels < 4]  # a class that is absent from the batch
    ours = built(name)
    torch.manual_seed(3)
    theirs = PEERS[name]()
    value, gradient = value_and_gradient(ours, z, labels)
    expected, expected_gradient = value_and_gradient(theirs, z, labels)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, expected_gradient)
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        one_gradient, two_gradient = (
            torch.autograd.grad(loss(z, labels), parameter)[0] for loss, parameter in ((ours, one), (theirs, two))
        )
        torch.testing.assert_close(one_gradient, two_gradient)


@pytest.mark.parametrize("name", PEERS)
def test_derivatives_by_torch_func(name: str) -> None:
    z, labels = batch()
    z, labels = z[labels < 5], labels[labels < 5]
    loss = built(name)
    _, expected = value_and_gradient(loss, z, labels)
    torch.testing.assert_close(torch.func.grad(lambda v: loss(v, labels))(z), expected)
    torch.testing.assert_close(value_and_gradient(loss, z, labels)[1], expected)


def test_arcface_margin_is_in_radians_and_matters() -> None:
    z, labels = batch()
    loss = built("arcface")
    (weights,) = loss.parameters()
    cosine = (z @ torch.nn.functional.normalize(weights, dim=0)).double()
    costs = []
    for row, label in zip(cosine, labels, strict=True):
        logits = 16 * row.clone()
        logits[label] = 16 * torch.cos(row[label].acos() + 0.5)
        costs.append(-logits.log_softmax(0)[label])
    torch.testing.assert_close(loss(z, labels).double(), torch.stack(costs).mean(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PEERS)
def test_sized_by_the_first_batch_or_by_a_loaded_state(name: str) -> None:
    z, labels = batch()
    lazy = losses.build(name)
    value = lazy(z, labels)
    again = losses.build(name)
    again.load_state_dict(lazy.state_dict())
    assert again(z, labels) == value
    fresh = losses.build(name)
    fresh.load_state_dict(losses.build(name).state_dict())
    torch.manual_seed(0)
    expected = losses.build(name, classes=5, dim=6)(z, labels)
    torch.manual_seed(0)
    assert fresh(z, labels) == expected


@pytest.mark.parametrize("name", PEERS)
def test_an_optimiser_never_misses_the_class_parameters(name: str) -> None:
    z, labels = batch()
    lazy = losses.build(name)
    (parameter,) = lazy.parameters()
    with pytest.raises(ValueError, match="uninitialized parameter"):
        parameter.numel()
    optimizer = torch.optim.SGD(lazy.parameters(), lr=0.1)  # before the first batch
    lazy(z, labels).backward()
    before = parameter.detach().clone()
    optimizer.step()
    assert (parameter - before).abs().max() > 1e-6
    assert next(lazy.parameters()) is parameter
    assert losses.build(name, classes=5, dim=6).state_dict().keys() == lazy.state_dict().keys()


@pytest.mark.parametrize("name", PEERS)
def test_one_seed_gives_one_start(name: str) -> None:
    (one,), (two,) = built(name).parameters(), built(name).parameters()
    assert torch.equal(one, two)
    assert one.requires_grad


@pytest.mark.parametrize("name", PEERS)
def test_bad_labels_and_sizes_get_one_line(name: str) -> None:
    z, labels = batch()
    loss = built(name)
    with pytest.raises(DataError, match="label 5 is outside this loss's 5 classes; number labels from 0 to 4"):
        loss(z, labels + 1)
    with pytest.raises(DataError, match="label -1 is outside"):
        loss(z, labels - 1)
    with pytest.raises(ModelError, match="built for 6 dims but got 4"):
        loss(z[:, :4], labels)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("kind", ["triplets", "pairs"])
def test_tuples_select_their_images_once(name: str, kind: str) -> None:
    z, labels = batch()
    loss = built(name)
    miner = mining.build("random") if kind == "triplets" else mining.build("multi-similarity", epsilon=0.5)
    tuples = miner(z[:6], labels[:6], torch.Generator().manual_seed(0))
    used = sorted({int(i) for index in tuples[: 3 if kind == "triplets" else 2] for i in index})
    value, gradient = value_and_gradient(loss, z, labels, tuples)
    torch.testing.assert_close(value, loss(z[used], labels[used]).detach())
    unused = [i for i in range(len(z)) if i not in used]
    assert (gradient[unused] == 0).all()
    assert gradient[used].norm() > 0


@pytest.mark.parametrize("name", PEERS)
def test_trimmed_drops_the_most_expensive(name: str) -> None:
    z, labels = batch()
    loss = built(name)
    trimmed = losses.build("trimmed", loss=loss, keep=0.6)
    assert set(dict(trimmed.named_parameters())) == {f"loss.{key}" for key, _ in loss.named_parameters()}
    assert trimmed(z, labels) < loss(z, labels)
    if name != "proxy-anchor":
        costs = torch.stack([loss(z[i : i + 1], labels[i : i + 1]) for i in range(len(z))])
        torch.testing.assert_close(trimmed(z, labels), costs.sort().values[: round(0.6 * len(z))].mean())


def test_missing_library_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pytorch_metric_learning.reducers", None)
    with pytest.raises(ModelError, match="pip install pytorch-metric-learning"):
        built("arcface")


@pytest.mark.parametrize("sign", [1, -1])
def test_arcface_where_an_image_meets_its_class_vector(sign: int) -> None:
    """A solved image, or one as wrong as can be: acos has no derivative there."""
    loss = built("arcface")
    labels = torch.arange(5)
    (vectors,) = loss.parameters()
    z = sign * torch.nn.functional.normalize(vectors.detach().T, dim=1)
    for shift in (0.0, 1e-8, 1e-4):
        leaf = (z + shift).requires_grad_()
        for found in torch.autograd.grad(loss(leaf, labels), [leaf, vectors]):
            assert found.isfinite().all()
            assert found.abs().max() < 100
