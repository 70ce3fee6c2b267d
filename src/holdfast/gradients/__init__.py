"""Direct gradients: a direction, a pair weight and a triplet weight instead of a loss to derive them from."""

from __future__ import annotations

from typing import Any

from holdfast.config import instantiate
from holdfast.gradients.directions import Direction
from holdfast.gradients.named import RULES, Components, Rule
from holdfast.gradients.pair_weights import PairWeight
from holdfast.gradients.rule import DirectGradient
from holdfast.gradients.triplet_weights import PositiveMask, TripletWeight
from holdfast.losses.base import Loss
from holdfast.mining import Miner

__all__ = [
    "Components",
    "DirectGradient",
    "Direction",
    "PairWeight",
    "PositiveMask",
    "Rule",
    "TripletWeight",
    "build",
    "named",
    "names",
]

Part = str | dict[str, Any]
"""A component as a recipe writes it: a bare name, or a block with its arguments."""


def build(
    direction: Part | Direction | None = None,
    pair: Part | PairWeight | None = None,
    triplet: Part | TripletWeight | None = None,
    mask: Part | PositiveMask | None = None,
    *,
    rule: Rule | str = "best",
    miner: Part | Miner | None = None,
) -> DirectGradient:
    """A rule from its components, given as names, as blocks (`{"name": "sig", "beta": 40}`) or built.

    Args:
        direction: `euc`, `cos`, `euc-orth` or `cos-orth`.
        pair: `con`, `euc`, `lin`, `sig`, `sig-ms` or `lin-ms`.
        triplet: `con`, `cos` or `cir`.
        mask: `sc1`, `sc2`, or none.
        rule: the named rule whose components fill in for those left out.
        miner: chooses the triplets; `ephn` when left out.
    """
    given = {"direction": direction, "pair": pair, "triplet": triplet, "mask": mask, "rule": rule, "miner": miner}
    built: DirectGradient = instantiate(Loss, {"name": "gradient", **given}, where="gradient")
    return built


def named(rule: Rule | str, *, miner: Part | Miner | None = None) -> DirectGradient:
    """A published rule.

    Args:
        rule: one of `names()`.
        miner: chooses the triplets; `ephn` when left out.
    """
    return build(rule=rule, miner=miner)


def names() -> list[str]:
    """The named rules."""
    return list(RULES)
