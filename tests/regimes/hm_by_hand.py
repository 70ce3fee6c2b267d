"""Hardness manipulation as plain loops, for oracles."""

from __future__ import annotations

import by_hand
import torch
from torch import Tensor

from holdfast.attacks import Budget

BUDGET = Budget(eps=0.006, step=0.002, steps=5)


def apart(z: Tensor, i: int, j: int) -> Tensor:
    return by_hand.apart(z[i], z[j])


def hard(z: Tensor, triplet: tuple[int, int, int]) -> Tensor:
    a, p, n = triplet
    return apart(z, a, p) - apart(z, a, n)


def drawn_triplets(labels: Tensor) -> list[tuple[int, int, int]]:
    """What the random miner draws: all positives, then all negatives."""
    generator = by_hand.stage("source")
    positives = by_hand.drawn(labels, True, generator)
    negatives = by_hand.drawn(labels, False, generator)
    return list(zip(range(len(labels)), positives, negatives, strict=True))


def climbed(
    look: by_hand.Embed,
    images: Tensor,
    triplets: list[tuple[int, int, int]],
    wanted: list[float],
    short: list[bool],
) -> Tensor:
    """Triplets laid out slot by slot, those that are short of what is wanted moved towards it."""
    clean = images[[row for triplet in triplets for row in triplet]]
    x = clean.clone()
    for _ in range(BUDGET.steps):
        x = x.detach().requires_grad_()
        z = look(x)
        gaps = [h - hard(z, (3 * i, 3 * i + 1, 3 * i + 2)) for i, h in enumerate(wanted)]
        below = [needed and bool(gap > 0) for needed, gap in zip(short, gaps, strict=True)]
        if not any(below):
            break
        loss = torch.stack([gap**2 for gap, counts in zip(gaps, below, strict=True) if counts]).sum()
        (slope,) = torch.autograd.grad(loss, x)
        stepped = (x.detach() - BUDGET.step_size * slope.sign()).clamp(clean - BUDGET.eps, clean + BUDGET.eps)
        # Triplets that have arrived stay, also where others reach their pixels through batch statistics.
        x = torch.stack([stepped[i].clamp(0, 1) if below[i // 3] else x[i].detach() for i in range(len(x))])
    return x.detach()
