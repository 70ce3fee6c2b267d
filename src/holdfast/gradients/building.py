"""Rules by name or from their parts."""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.config import instantiate
from holdfast.errors import RecipeError
from holdfast.gradients.directions import Direction
from holdfast.gradients.named import RULES, Rule
from holdfast.gradients.pair_weights import PairWeight
from holdfast.gradients.rule import DirectGradient
from holdfast.gradients.triplet_weights import PositiveMask, TripletWeight
from holdfast.losses.base import Loss
from holdfast.mining import Miner
from holdfast.yaml_files import NotYaml, read_yaml

Part: TypeAlias = str | dict[str, Any]
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


def parse(text: str) -> DirectGradient:
    """A rule as the command line takes it: one of `names()`, or a block such as `{pair: sig, mask: sc1}`."""
    if not text.lstrip().startswith("{"):
        return named(text)
    try:
        block = read_yaml(text)
    except NotYaml as error:
        raise RecipeError(f"'{text}' is not a block such as {{pair: sig, mask: sc1}}: {error}") from error
    built: DirectGradient = instantiate(Loss, {**block, "name": "gradient"}, where="gradient")
    return built
