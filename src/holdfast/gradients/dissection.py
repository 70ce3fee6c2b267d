"""Where any tuple loss stands among the rules, measured from its gradients."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from holdfast.console import table
from holdfast.errors import DataError
from holdfast.gradients.directions import Moves
from holdfast.gradients.directions import registry as directions
from holdfast.gradients.named import RULES, Components
from holdfast.gradients.rule import DirectGradient
from holdfast.gradients.triplets import geometry, others_of
from holdfast.gradients.weights import masks, pair_weights, triplet_weights
from holdfast.losses.base import Loss
from holdfast.mining import EasyPositiveHardNegative, Pairs, Triplets, Tuples
from holdfast.mining.batch import relations
from holdfast.sphere import Mask, similarity

K = TypeVar("K")

AnyLoss: TypeAlias = Callable[..., Tensor]
Context: TypeAlias = Literal["triplet", "anchor"]
Vectors: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Of anchor, positive and negative, one row each per triplet."""

TIE = 1e-5
"""Residuals closer than this differ by rounding only."""


class RuleMatch(NamedTuple):
    """How well something explains a gradient.

    Args:
        scale: the loss's gradient is this many times the other's.
        residual: fraction of the gradient's length that is left unexplained, 0 to 1.
    """

    scale: float
    residual: float


@dataclasses.dataclass(frozen=True)
class Dissection:
    """A loss taken apart on the triplets of a batch; arrays have one entry per triplet.

    Args:
        triplets: what was measured.
        s_ap: similarity of anchor and positive.
        s_an: similarity of anchor and negative.
        pull: T P+, how hard the positive is pulled along the nearest direction.
        push: T P-, how hard the negative is pushed.
        positive: P+ implied by the nearest triplet weight, in units of the nearest components.
        negative: P-, likewise.
        triplet: T implied by the nearest pair weight.
        active: whether the triplet has a gradient at all.
        directions: fraction of the gradients that each direction leaves unexplained, whatever the weights.
        components: the combination that explains direction and weights best.
        match: how well it does.
        rules: how well each named rule does.
        tangential: the loss normalises by itself, so that only the part along the sphere could be compared. There
            `euc` and `cos` point the same way and only their weights tell them apart.
        elsewhere: fraction of the gradient that falls on images outside the triplet.
    """

    triplets: Triplets
    s_ap: Tensor
    s_an: Tensor
    pull: Tensor
    push: Tensor
    positive: Tensor
    negative: Tensor
    triplet: Tensor
    active: Mask
    directions: dict[str, float]
    components: Components
    match: RuleMatch
    rules: dict[str, RuleMatch]
    tangential: bool
    elsewhere: float

    @property
    def rule(self) -> str:
        """The nearest named rule."""
        return _least({name: found.residual for name, found in self.rules.items()})

    def __str__(self) -> str:
        percent = 100 * float(self.active.double().mean())
        found = [(name, f"{m.scale:.3g}", f"{100 * m.residual:.1f} %") for name, m in self.rules.items()]
        lines = [
            f"{len(self.s_ap)} triplets, {percent:.0f} % with a gradient"
            + (", compared along the sphere" if self.tangential else ""),
            f"nearest components: {self.components}, unexplained {100 * self.match.residual:.1f} %",
            f"nearest named rule: {self.rule}",
            "",
            table(["named rule", "times", "unexplained"], sorted(found, key=lambda row: self.rules[row[0]].residual)),
        ]
        if self.elsewhere > 1e-6:
            lines.insert(1, f"{100 * self.elsewhere:.0f} % of the gradient falls on images outside the triplet")
        return "\n".join(lines)


def dissect(
    loss: AnyLoss, embeddings: Tensor, labels: Tensor, triplets: Triplets | None = None, *, context: Context = "triplet"
) -> Dissection:
    """Measure the direction, pair weight and triplet weight that a loss implies.

    The loss is asked for the gradient of one triplet after another, so that what an image gets as an anchor is not
    mixed with what it gets as somebody's positive: one backward pass per triplet, a tool for looking, not for training.

    Args:
        loss: called as `loss(embeddings, labels, tuples)`: a loss of holdfast or of pytorch-metric-learning.
        embeddings: unit vectors of shape (n, dim).
        labels: integers of shape (n,), or a boolean n × n relevance matrix.
        triplets: where to look; those of the miner `ephn` when left out.
        context: `triplet` lets the loss learn on the triplet alone; `anchor` on all pairs of its anchor, for losses
            that weigh a pair against the others (the holdfast loss `multi-similarity`).

    Requirements: unit vectors; a loss that takes tuples.
    """
    if getattr(loss, "memory", None) is not None:
        raise DataError("a memory compares triplets with other images; take the loss apart without memory")
    z = embeddings.detach().double()  # so that what is left unexplained is not rounding
    positive, negative = relations(z, labels)
    if triplets is None:
        mined = EasyPositiveHardNegative()(z, labels)
        assert isinstance(mined, Triplets)
        triplets = mined
    if len(triplets.anchor) == 0:
        raise DataError("there is no triplet to look at; give a batch with two images of a class and another class")
    if context == "anchor" and not isinstance(loss, Loss):
        raise DataError("context 'anchor' gives pairs to the loss, which only losses of holdfast take; use 'triplet'")
    tuples = tuples_of(triplets, positive, negative, context)
    measured, elsewhere = measure(loss, z, labels, triplets, tuples, alone=context == "triplet")
    if not bool(measured.active.any()):
        raise DataError("the loss has no gradient on these triplets, so there is nothing to take apart; give others")
    vectors = z[triplets.anchor], z[triplets.positive], z[triplets.negative]
    tangential = is_tangential(measured, vectors)
    scene = geometry(*vectors, others_of(triplets, similarity(z), positive, negative))
    moves = {name: directions.get(name)()(*vectors) for name in directions.names()}
    if tangential:
        moves = {name: along_sphere(move, vectors) for name, move in moves.items()}

    def match(parts: Components) -> RuleMatch:
        pull, push = DirectGradient("best", *parts).weigh(scene)
        return _fit(measured.like(moves[parts.direction], pull, push), measured.flat())

    along = {
        name: (_along(measured.positive, move.e_p), _along(measured.negative, move.e_n)) for name, move in moves.items()
    }
    unexplained = {
        name: _fit(measured.like(moves[name], *along[name]), measured.flat(), 1.0).residual for name in moves
    }
    fitting = [name for name in moves if unexplained[name] <= min(unexplained.values()) + TIE]
    candidates = itertools.product(fitting, pair_weights.names(), triplet_weights.names(), (None, *masks.names()))
    matches = {parts: match(parts) for parts in itertools.starmap(Components, candidates)}
    nearest = _least({parts: found.residual for parts, found in matches.items()})
    pull, push = along[nearest.direction]
    rule = DirectGradient("best", *nearest)
    scale = matches[nearest].scale
    whole = rule.triplet(scene.s_ap, scene.s_an)
    pair_pull, pair_push = (weight / whole for weight in rule.weigh(scene))
    return Dissection(
        triplets=triplets,
        s_ap=scene.s_ap,
        s_an=scene.s_an,
        pull=pull,
        push=push,
        positive=_quotient(pull, scale * whole),
        negative=_quotient(push, scale * whole),
        triplet=_quotient(pull * pair_pull + push * pair_push, pair_pull**2 + pair_push**2) / scale,
        active=measured.active,
        directions=unexplained,
        components=nearest,
        match=matches[nearest],
        rules={name: match(parts) for name, parts in RULES.items()},
        tangential=tangential,
        elsewhere=elsewhere,
    )


def _along(gradient: Tensor, move: Tensor) -> Tensor:
    return _quotient((gradient * move).sum(1), move.square().sum(1))


def _quotient(top: Tensor, bottom: Tensor) -> Tensor:
    return torch.where(bottom > 0, top / bottom.clamp_min(torch.finfo(bottom.dtype).tiny), 0)


def _fit(candidate: Tensor, measured: Tensor, scale: float | None = None) -> RuleMatch:
    """The best multiple of a candidate, and what it leaves of what was measured."""
    if scale is None:
        scale = float(_quotient(candidate @ measured, candidate @ candidate))
    length = float(measured.norm())
    return RuleMatch(scale, float((measured - scale * candidate).norm()) / length if length else 1.0)


def _least(residuals: dict[K, float]) -> K:
    """The key of the smallest value; of those that tie, the first."""
    lowest = min(residuals.values())
    return next(key for key, value in residuals.items() if value <= lowest + TIE)


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
