"""Direct gradients as loops over triplets, written from the formulas; and batches to try them on."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from holdfast.mining import Triplets

ALPHA, BETA, BASE, TAU = 2.0, 10.0, 0.5, 1.0


def batch(seed: int = 0, classes: int = 4, per_class: int = 3, dim: int = 5) -> tuple[Tensor, Tensor]:
    """Unit vectors in float64 of classes that overlap, in any order."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(per_class)
    labels = labels[torch.randperm(len(labels), generator=generator)]
    centres = torch.randn(classes, dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(labels), dim, generator=generator, dtype=torch.float64)
    return normalize(centres[labels] + 0.8 * noise, dim=1), labels


def gradient_of(loss: Any, z: Tensor, *arguments: Any) -> Tensor:
    """The gradient that a loss sends to the embeddings."""
    leaf = z.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf, *arguments), leaf)
    return gradient


def normalised(v: Tensor) -> Tensor:
    return v / v.norm() if v.norm() > 0 else v * 0


def moves(direction: str, a: Tensor, p: Tensor, n: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if direction.startswith("euc"):
        e_p, e_n = normalised(p - a), normalised(a - n)
        e_ap, e_an = -e_p, -e_n
    else:
        e_p, e_n, e_ap, e_an = -a, a, -p, n
    if direction.endswith("orth"):
        u = normalised(a - p)
        e_n, e_an = (normalised(e - (e @ u) * u) for e in (e_n, e_an))
    return e_p, e_n, e_ap, e_an


def relative_sets(
    s: Tensor, labels: Tensor, a: int, p: int, n: int, numbers: Tensor | None = None
) -> tuple[list[float], list[float]]:
    """The sets P and N of one triplet; no copy of the anchor is in them."""
    numbers = torch.arange(len(s)) if numbers is None else numbers
    others_p = [float(s[a, i]) for i in range(len(s)) if i != p and numbers[i] != numbers[a] and labels[i] == labels[a]]
    others_n = [float(s[a, j]) for j in range(len(s)) if j != n and labels[j] != labels[a]]
    top, bottom = max([float(s[a, n]), *others_n]), min([float(s[a, p]), *others_p])
    return [r for r in others_p if r < top + 0.1], [r for r in others_n if r > bottom - 0.1]


def pair_weight(pair: str, s_ap: float, s_an: float, kept_p: list[float], kept_n: list[float]) -> tuple[float, float]:
    if pair == "con":
        return 1, 1
    if pair == "euc":
        return math.sqrt(max(0, 2 - 2 * s_ap)), math.sqrt(max(0, 2 - 2 * s_an))
    if pair == "lin":
        return max(0, 1 - s_ap), max(0, s_an)
    if pair == "lin-ms":
        m_p = sum(s_ap - r for r in kept_p) / len(kept_p) if kept_p else 0
        m_n = sum(s_an - r for r in kept_n) / len(kept_n) if kept_n else 0
        return max(0, 1 - m_p) * max(0, 1 - s_ap), max(0, 1 + m_n) * max(0, s_an)
    m_p = m_n = 1.0
    if pair == "sig-ms" and kept_p:
        m_p = sum(math.exp(ALPHA * (s_ap - r)) for r in kept_p) / len(kept_p)
    if pair == "sig-ms" and kept_n:
        m_n = sum(math.exp(-BETA * (s_an - r)) for r in kept_n) / len(kept_n)
    return 1 / (m_p + math.exp(ALPHA * (s_ap - BASE))), 1 / (m_n + math.exp(-BETA * (s_an - BASE)))


def triplet_weight(triplet: str, s_ap: float, s_an: float) -> float:
    if triplet == "con":
        return 0.5
    gap = s_ap - s_an if triplet == "cos" else s_ap * (2 - s_ap) - s_an**2
    return 1 / (1 + math.exp(TAU * gap))


def kept(mask: str | None, s_ap: float, s_an: float) -> bool:
    if mask == "sc1":
        return not s_an > s_ap
    if mask == "sc2":
        return not s_ap * (2 - s_ap) - s_an**2 < 0.5
    if mask == "sc2 as printed":
        return not s_ap * (2 - s_ap) - s_an**2 > 0.5
    return True


def direct_gradient(
    direction: str,
    pair: str,
    triplet: str,
    mask: str | None,
    z: Tensor,
    labels: Tensor,
    triplets: Triplets,
    numbers: Tensor | None = None,
) -> Tensor:
    """The whole rule, one triplet at a time."""
    s = z @ z.T
    gradient = torch.zeros_like(z)
    rows = list(zip(*(index.tolist() for index in triplets), strict=True))
    for a, p, n in rows:
        s_ap, s_an = float(s[a, p]), float(s[a, n])
        pull, push = pair_weight(pair, s_ap, s_an, *relative_sets(s, labels, a, p, n, numbers))
        pull = pull if kept(mask, s_ap, s_an) else 0
        weight = triplet_weight(triplet, s_ap, s_an)
        e_p, e_n, e_ap, e_an = moves(direction, z[a], z[p], z[n])
        gradient[p] += weight * pull * e_p
        gradient[n] += weight * push * e_n
        gradient[a] += weight * (pull * e_ap + push * e_an)
    return gradient / len(rows)
