"""Loops written from the definitions, and batches to try them on."""

from __future__ import annotations

import torch
from torch import Tensor


def batch(
    seed: int = 0, classes: int = 5, per_class: int = 4, dim: int = 6, spread: float = 0.8
) -> tuple[Tensor, Tensor]:
    """Unit vectors around class centres, classes in consecutive order, and their labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(per_class)
    centres = torch.randn(classes, dim, generator=generator)
    vectors = centres[labels] + spread * torch.randn(len(labels), dim, generator=generator)
    return torch.nn.functional.normalize(vectors, dim=1), labels


def relevance(labels: Tensor) -> Tensor:
    return labels[:, None] == labels[None, :]


def positives(labels: Tensor, a: int) -> list[int]:
    return [j for j in range(len(labels)) if j != a and labels[j] == labels[a]]


def negatives(labels: Tensor, a: int) -> list[int]:
    return [j for j in range(len(labels)) if labels[j] != labels[a]]


def distance(z: Tensor, i: int, j: int) -> float:
    return float((z[i].double() - z[j].double()).norm())
