"""Derivatives of any order and kind, for every pair and triplet loss: double backward, `torch.func`, forward mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from loss_batches import batch
from torch import Tensor
from torch.autograd import forward_ad

from holdfast import losses, mining, pair_matrix
from holdfast.losses import TupleLoss
from holdfast.mining import Tuples
from holdfast.registry import Registry
from holdfast.sphere import distances, similarity, squared_distances

KINDS = {name: Registry.of(losses.Loss).get(name) for name in losses.names()}  # type: ignore[union-attr]
NAMES = [name for name, kind in KINDS.items() if isinstance(kind, type) and issubclass(kind, TupleLoss)]
SOURCES = ["all", "triplets", "pairs"]


@pytest.fixture(params=[1, 10**9], ids=["large", "small"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """From which size on the faster ways are taken."""
    monkeypatch.setattr(pair_matrix, "LARGE", request.param)
    monkeypatch.setattr(pair_matrix, "SMALL", request.param)
    monkeypatch.setattr(pair_matrix, "BLOCK", request.param)
    return int(request.param)


def case(name: str, source: str) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Embeddings away from every kink, and the loss of them."""
    z, labels = batch(4, classes=4, dim=4)
    z = z.double()
    tuples: Tuples | None = None
    if source != "all":
        miner = "random" if source == "triplets" else "multi-similarity"
        tuples = mining.build(miner)(z, labels, torch.Generator().manual_seed(0))
    loss = losses.build(name).double()
    return z, lambda v: loss(v, labels, tuples)


def gradient(function: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    leaf = z.clone().requires_grad_()
    return torch.autograd.grad(function(leaf), leaf)[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", SOURCES)
def test_double_backward(name: str, source: str, large: int) -> None:
    z, function = case(name, source)
    if KINDS[name].exact:  # type: ignore[attr-defined]
        assert torch.autograd.gradgradcheck(function, z.clone().requires_grad_())
        return
    leaf = z.clone().requires_grad_()
    (first,) = torch.autograd.grad(function(leaf), leaf, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), leaf)
    torch.testing.assert_close(first, gradient(function, z))
    assert second.norm() > 1e-6


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", SOURCES)
def test_torch_func(name: str, source: str, large: int) -> None:
    z, function = case(name, source)
    torch.testing.assert_close(torch.func.grad(function)(z), gradient(function, z))
    leaf = z.clone().requires_grad_()
    (first,) = torch.autograd.grad(function(leaf), leaf, create_graph=True)
    (expected,) = torch.autograd.grad(first[0, 0], leaf, allow_unused=True, materialize_grads=True)
    found = torch.func.grad(lambda v: torch.func.grad(function)(v)[0, 0])(z)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", NAMES)
def test_forward_mode(name: str, large: int) -> None:
    z, function = case(name, "all")
    direction = torch.randn(z.shape, generator=torch.Generator().manual_seed(1), dtype=z.dtype)
    expected = (gradient(function, z) * direction).sum()
    _, found = torch.func.jvp(function, (z,), (direction,))
    torch.testing.assert_close(found, expected)
    for needs_gradient in (False, True):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(z.clone().requires_grad_(needs_gradient), direction)
            tangent = forward_ad.unpack_dual(function(dual)).tangent
        torch.testing.assert_close(tangent.detach(), expected)


@pytest.mark.parametrize("matrix", [similarity, squared_distances, distances])
def test_matrices(matrix: Callable[[Tensor], Tensor], large: int) -> None:
    z = batch(5)[0].double().requires_grad_()
    off = ~torch.eye(len(z), dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda v: matrix(v)[off], z, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda v: matrix(v)[off], z)
    both = torch.stack([z.detach(), 2 * z.detach()])
    torch.testing.assert_close(torch.vmap(matrix)(both)[1], matrix(both[1]))
    jacobian = torch.func.jacrev(lambda v: matrix(v)[off])(z.detach())
    torch.testing.assert_close(torch.func.jacfwd(lambda v: matrix(v)[off])(z.detach()), jacobian)


@pytest.mark.parametrize("name", NAMES)
def test_several_batches_at_once(name: str) -> None:
    z, labels = batch(4, classes=4, dim=4)
    several = torch.stack([z, z.flip(1)])
    tuples = mining.build("random")(z, labels, torch.Generator().manual_seed(0))
    loss = losses.build(name)

    def one(v: Tensor) -> Tensor:
        value: Tensor = loss(v, labels, tuples)
        return value

    torch.testing.assert_close(torch.vmap(one)(several), torch.stack([one(v) for v in several]))
    gradients = torch.stack([gradient(one, v) for v in several])
    torch.testing.assert_close(torch.vmap(torch.func.grad(one))(several), gradients, rtol=1e-4, atol=1e-5)
