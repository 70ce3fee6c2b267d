"""Published losses as combinations of a direction, a pair weight and a triplet weight."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from holdfast.gradients.directions import registry as directions
from holdfast.gradients.weights import masks, pair_weights, triplet_weights
from holdfast.registry import Registry

Rule: TypeAlias = Literal[
    "triplet-euclidean", "triplet-cosine", "circle", "binomial-deviance", "ms", "dr-ms", "sc-triplet", "best"
]


class Components(NamedTuple):
    """Names of the parts of a rule.

    Args:
        direction: where vectors are moved.
        pair: weight of each pair.
        triplet: weight of the whole triplet.
        mask: which triplets pull their positive; all of them when left out.
    """

    direction: str
    pair: str
    triplet: str
    mask: str | None = None

    def __str__(self) -> str:
        return " × ".join(name for name in self if name is not None)


FAMILIES: dict[str, Registry[Any]] = {
    "direction": directions,
    "pair": pair_weights,
    "triplet": triplet_weights,
    "mask": masks,
}
"""The components of a rule, by the argument that takes them."""

RULES: dict[Rule, Components] = {
    "triplet-euclidean": Components("euc", "euc", "con"),
    "triplet-cosine": Components("cos", "con", "cos"),
    "circle": Components("cos", "lin", "cir"),
    "binomial-deviance": Components("cos", "sig", "con"),
    "ms": Components("cos", "sig-ms", "con"),
    "dr-ms": Components("cos-orth", "sig-ms", "con"),
    "sc-triplet": Components("cos", "con", "cos", "sc1"),
    "best": Components("cos-orth", "lin-ms", "cir"),
}

SUMMARIES: dict[Rule, str] = {
    "triplet-euclidean": "The squared triplet loss with an active hinge.",
    "triplet-cosine": "The soft triplet loss on similarities.",
    "circle": "Pairs by their gap to the ideal, triplets by their distance from it.",
    "binomial-deviance": "Each pair by a sigmoid of its own similarity.",
    "ms": "Multi-similarity's pair weight, without its gradients on other images.",
    "dr-ms": "`ms` with the negative moving at right angles to the positive pair.",
    "sc-triplet": "`triplet-cosine` that only pushes where the negative is closer than the positive.",
    "best": "The combination the GS paper arrives at.",
}


def entries() -> dict[str, str]:
    """A line on every rule, then on every component under `argument: name`, as a recipe writes them."""
    lines = {f"rule: {name}": f"{SUMMARIES[name]} ({parts})" for name, parts in RULES.items()}
    for argument, family in FAMILIES.items():
        lines |= {f"{argument}: {name}": family.summary(name) for name in family.names()}
    return lines
