"""Layers that run together compute what they compute one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.attacks.frozen import frozen
from holdfast.models import Embedder, compiled
from holdfast.models.bank import SetStart
from holdfast.models.compiled import CompiledPasses
from holdfast.models.fused import NOTHING, ConvReLU, PooledReLU, fuse, pool
from kernels import interpret


def model(name: str) -> Embedder:
    """In double precision, with BatchNorm layers that do something, some of them upside down."""
    torch.manual_seed(0)
    made = Embedder(name, dim=8, size=64).double().eval()
    for layer in made.modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean is not None
            assert layer.running_var is not None
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(layer.weight, -0.5, 1.2)
            nn.init.normal_(layer.bias, 0, 0.1)
    return made


def images(height: int = 64, width: int = 64) -> Tensor:
    return torch.rand(3, 3, height, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def with_gradient(call: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_()
    z = call(x)
    return z.detach(), torch.autograd.grad((z**2).sum(), x)[0]


@pytest.mark.parametrize(("name", "layers"), [("resnet18", 17), ("resnet50", 49), ("torchvision:resnet18", 17)])
@pytest.mark.parametrize("size", [(64, 64), (70, 45)])
def test_features_and_gradients_of_pixels_are_the_same(name: str, layers: int, size: tuple[int, int]) -> None:
    plain = model(name).requires_grad_(False).backbone
    together = fuse(plain)
    assert together is not None
    made = [part for part in together.modules() if isinstance(part, ConvReLU | PooledReLU)]
    assert len(made) == layers
    assert not list(together.parameters()) or {*together.parameters()} <= {*plain.parameters()}
    for mine, theirs in zip(with_gradient(together, images(*size)), with_gradient(plain, images(*size)), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_it_changes_with_the_layers() -> None:
    plain = model("resnet18").requires_grad_(False).backbone
    together = fuse(plain)
    assert together is not None
    before = together(images())
    for layer in plain.modules():
        if isinstance(layer, nn.Conv2d | nn.BatchNorm2d):
            layer.weight.mul_(1.1)
    torch.testing.assert_close(together(images()), plain(images()), rtol=1e-9, atol=1e-12)
    assert not torch.allclose(together(images()), before)


@pytest.mark.parametrize("name", ["conv-tiny", "mobilenetv2_100", "vit_tiny_patch16_224"])
def test_networks_without_such_layers_stay_as_they_are(name: str) -> None:
    assert fuse(Embedder(name, dim=8).backbone) is None


@pytest.mark.parametrize("distribution", ["clean", "other"])
def test_crafting_runs_layers_together_and_learning_does_not(
    distribution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    monkeypatch.setattr(compiled, "together_on", lambda device: True)
    torch._dynamo.reset()
    plain = model("resnet18")
    plain.bank.add(plain.backbone, SetStart("other", noise=0.1), torch.Generator().manual_seed(1))
    plain.bank.double()
    calls = []
    monkeypatch.setattr(PooledReLU, "forward", _counted(PooledReLU.forward, calls))
    run = CompiledPasses(plain)

    def through(call: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda x: call(x, distribution=distribution)

    with frozen(plain):
        mine, theirs = with_gradient(through(run), images()), with_gradient(through(plain), images())
        with torch.no_grad():
            look = through(run)(images())
    torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-11)
    torch.testing.assert_close(look, theirs[0], rtol=1e-8, atol=1e-11)
    crafted = len(calls)
    assert crafted
    for training, rest in ((False, True), (True, False)):  # weights that learn; statistics of the batch
        plain.train(training).requires_grad_(rest)
        torch.testing.assert_close(
            with_gradient(through(run), images()), with_gradient(through(plain), images()), rtol=1e-6, atol=1e-9
        )
    assert len(calls) == crafted


def _counted(forward: Callable[[PooledReLU, Tensor], Tensor], calls: list[int]) -> Callable[..., Tensor]:
    def counted(self: PooledReLU, x: Tensor) -> Tensor:
        calls.append(1)
        return forward(self, x)

    return counted


def test_a_broken_activation_is_not_pooled_away() -> None:
    x = torch.randn(1, 4, 8, 8)
    x[0, 1, 3, 3] = torch.nan
    found, place = pool(x, torch.ones(4), torch.zeros(4))
    assert int(found.isnan().sum()) == int(F.max_pool2d(x, 3, 2, 1).isnan().sum()) == 4
    assert bool((place[0, 0] == NOTHING).logical_or(found[0, 0] > 0).all())


def test_the_kernels_of_a_gpu_do_the_same() -> None:
    interpret(KERNELS)


KERNELS = """
import torch
from holdfast.models import pool_kernels
from holdfast.models.fused import pool, pool_backward

torch.manual_seed(0)
for shape in ((2, 64, 16, 16), (1, 24, 15, 33), (2, 3, 7, 6), (1, 1, 1, 1)):
    x = torch.randn(shape, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    factor, addend = torch.randn(2, shape[1], dtype=torch.float64)
    wanted = pool(x, factor, addend)
    torch.testing.assert_close(pool_kernels.forward(x, factor, addend), wanted)
    back = torch.randn_like(wanted[0]), wanted[1], factor, *shape[2:]
    torch.testing.assert_close(pool_kernels.backward(*back), pool_backward(*back))
"""
