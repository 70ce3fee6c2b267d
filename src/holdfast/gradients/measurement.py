"""The gradients that any loss sends to single triplets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from holdfast.gradients.directions import Moves
from holdfast.mining import Pairs, Triplets, Tuples
from holdfast.sphere import Mask

AnyLoss: TypeAlias = Callable[..., Tensor]
Context: TypeAlias = Literal["triplet", "anchor"]
Vectors: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Of anchor, positive and negative, one row each per triplet."""


class Gradients(NamedTuple):
    """Measured at each slot of the triplets; the anchor's is None where other pairs of the anchor are mixed in."""

    anchor: Tensor | None
    positive: Tensor
    negative: Tensor

    @property
    def active(self) -> Mask:
        """Which triplets have a gradient at all: a hinge leaves some without."""
        return (self.positive.abs().sum(1) + self.negative.abs().sum(1)) > 0

    def flat(self) -> Tensor:
        """All of it in one row."""
        return torch.cat([slot.flatten() for slot in self if slot is not None])

    def like(self, moves: Moves, pull: Tensor, push: Tensor) -> Tensor:
        """What these weights along these moves would give, in the order of `flat`; nothing for idle triplets."""
        pull, push = ((weight * self.active)[:, None] for weight in (pull, push))
        anchor = None if self.anchor is None else pull * moves.e_ap + push * moves.e_an
        return Gradients(anchor, pull * moves.e_p, push * moves.e_n).flat()


def tuples_of(triplets: Triplets, positive: Mask, negative: Mask, context: Context) -> list[Tuples]:
    """What the loss is given for each triplet: the triplet alone, or all pairs of its anchor."""
    if context == "triplet":
        return [Triplets(*(index[row : row + 1] for index in triplets)) for row in range(len(triplets.anchor))]
    found: list[Tuples] = []
    for anchor in triplets.anchor.tolist():
        other = (positive[anchor] | negative[anchor]).nonzero().squeeze(1)
        found.append(Pairs(torch.full_like(other, anchor), other, positive[anchor, other]))
    return found


def measure(
    loss: AnyLoss, z: Tensor, labels: Tensor, triplets: Triplets, tuples: list[Tuples], alone: bool
) -> tuple[Gradients, float]:
    """The gradients of a loss on each triplet, and the fraction of them that falls on other images.

    Args:
        tuples: what the loss learns on, one entry per triplet.
        alone: whether that is the triplet alone.
    """
    slots = torch.stack(tuple(triplets), dim=1)
    rows, total = [], 0.0
    for own, given in zip(slots, tuples, strict=True):
        leaf = z.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(leaf, labels, given), leaf)
        rows.append(gradient[own])
        total += float(gradient.double().square().sum())
    anchor, positive, negative = torch.stack(rows, dim=1)
    inside = sum(float(slot.double().square().sum()) for slot in (anchor, positive, negative))
    outside = max(0.0, 1 - inside / total) if total else 0.0
    return Gradients(anchor if alone else None, positive, negative), outside**0.5


def is_tangential(measured: Gradients, vectors: Vectors) -> bool:
    """Whether gradients have no part along the vectors themselves: the loss normalises by itself."""
    radial = [(g * at).sum(1) for g, at in zip(measured, vectors, strict=True) if g is not None]
    return float(torch.cat(radial).norm()) <= 1e-4 * float(measured.flat().norm())


def along_sphere(moves: Moves, vectors: Vectors) -> Moves:
    """The part of moves that normalisation lets through."""
    anchor, positive, negative = vectors
    places = (positive, negative, anchor, anchor)
    return Moves(*(e - (e * at).sum(1, keepdim=True) * at for e, at in zip(moves, places, strict=True)))
