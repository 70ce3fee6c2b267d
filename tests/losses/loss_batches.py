"""Batches, enumerated tuples and gradients for the tests of losses."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.losses import Loss
from holdfast.mining import Pairs, Triplets, Tuples


def batch(
    seed: int = 0, classes: int = 5, per_class: int = 3, dim: int = 6, unit: bool = True, shuffle: bool = True
) -> tuple[Tensor, Tensor]:
    """Vectors that overlap between classes, so that losses have active and idle tuples, and labels in any order."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(per_class)
    if shuffle:
        labels = labels[torch.randperm(len(labels), generator=generator)]
    centres = torch.randn(classes, dim, generator=generator)
    vectors = centres[labels] + 0.7 * torch.randn(len(labels), dim, generator=generator)
    return (torch.nn.functional.normalize(vectors, dim=1) if unit else vectors), labels


def every_triplet(labels: Tensor) -> Triplets:
    same = labels[:, None] == labels[None, :]
    positive = same & ~torch.eye(len(labels), dtype=torch.bool)
    return Triplets(*torch.where(positive[:, :, None] & ~same[:, None, :]))


def every_pair(labels: Tensor) -> Pairs:
    same = labels[:, None] == labels[None, :]
    anchor, other = torch.where(~torch.eye(len(labels), dtype=torch.bool))
    return Pairs(anchor, other, same[anchor, other])


def value_and_gradient(
    loss: Loss | torch.nn.Module, z: Tensor, labels: Tensor, tuples: Tuples | None = None, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """The cost and its gradient with respect to the embeddings, with a seeded generator where the loss takes one."""
    leaf = z.detach().clone().requires_grad_()
    if isinstance(loss, Loss):
        value = loss(leaf, labels, tuples, torch.Generator().manual_seed(seed))
    else:
        value = loss(leaf, labels) if tuples is None else loss(leaf, labels, tuples)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient
