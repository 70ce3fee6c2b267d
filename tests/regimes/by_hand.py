"""Oracles of adversarial regimes: attack, draws and triplet loss as plain loops, written from the formulas."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from regime_cases import unit
from torch import Tensor

from holdfast import seeds
from holdfast.models import Embedder
from holdfast.regimes import StepContext

SEED, STEP = 0, 3
"""Those of `regime_cases.context`."""

Embed = Callable[[Tensor], Tensor]


def stage(name: str) -> torch.Generator:
    return seeds.generator(SEED, STEP, name)


def looking(model: Embedder, statistics: str) -> Embed:
    """A copy to look through: in eval mode throughout, or as it trains."""
    twin = copy.deepcopy(model)
    if statistics == "eval":
        for part in twin.modules():
            part.training = False
    return lambda images: unit(twin, images)


def moved(
    embed: Embed,
    images: Tensor,
    loss: Callable[[Tensor, int], Tensor],
    eps: float,
    step: float,
    steps: int,
    radius: float = 0.0,
) -> Tensor:
    """Sign steps that lower a loss of (embeddings, number of the step), inside the ball and [0, 1]."""
    x = images.clone()
    if radius:
        x = (images + (2 * torch.rand(images.shape, generator=stage("start")) - 1) * radius).clamp(0, 1)
    for number in range(steps):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(loss(embed(x), number), x)
        x = x.detach() - step * slope.sign()
        x = x.clamp(images - eps, images + eps).clamp(0, 1)
    return x.detach()


def others(labels: Tensor, i: int, same: bool) -> list[int]:
    """Images of the same class (itself left out) or of other classes."""
    return [j for j in range(len(labels)) if j != i and (labels[j] == labels[i]).item() is same]


def drawn(labels: Tensor, same: bool, generator: torch.Generator) -> list[int]:
    """One of the same class, or of another, for each image."""
    numbers = torch.rand(len(labels), generator=generator).tolist()
    pools = [others(labels, i, same) for i in range(len(labels))]
    return [pool[int(number * len(pool))] for number, pool in zip(numbers, pools, strict=True)]


def apart(a: Tensor, b: Tensor, shift: float = 1e-6) -> Tensor:
    """Distance of two vectors, something added to every difference."""
    return (a - b + shift).norm()


def triplet_loss(z: Tensor, triplets: list[tuple[int, int, int]], shift: float = 1e-6) -> Tensor:
    """Mean relu(d_ap - d_an + 0.2) of single triplets; without the shift where the loss takes all there are."""
    costs = [torch.relu(apart(z[a], z[p], shift) - apart(z[a], z[n], shift) + 0.2) for a, p, n in triplets]
    return torch.stack(costs).mean()


def every_triplet(labels: Tensor) -> list[tuple[int, int, int]]:
    count = range(len(labels))
    return [(a, p, n) for a in count for p in others(labels, a, True) for n in others(labels, a, False)]


def images_learnt(ctx: StepContext) -> list[Tensor]:
    """A list that fills with the images of every pass that learns."""
    seen: list[Tensor] = []
    real = ctx.encode

    def encode(images: Tensor, *rest: object, **named: object) -> object:
        seen.append(images)
        return real(images, *rest, **named)  # type: ignore[arg-type]

    ctx.encode = encode  # type: ignore[method-assign, assignment]
    return seen


def close(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    """Two sets of gradients are the same up to rounding, and not all zero."""
    assert found.keys() == wanted.keys()
    assert any(value.abs().max() > 1e-6 for value in wanted.values())
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-8, atol=1e-11, msg=lambda text, n=name: f"{n}: {text}")
