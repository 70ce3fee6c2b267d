"""A line on every named rule and every component."""

from __future__ import annotations

from typing import Any

from holdfast.gradients import directions, pair_weights, triplet_weights
from holdfast.gradients.named import RULES, SUMMARIES
from holdfast.registry import Registry


def entries() -> dict[str, str]:
    """Rules first, then components under `argument: name`, as a recipe writes them."""
    lines = {f"rule: {name}": f"{SUMMARIES[name]} ({parts})" for name, parts in RULES.items()}
    families: dict[str, Registry[Any]] = {
        "direction": directions.registry,
        "pair": pair_weights.registry,
        "triplet": triplet_weights.weights,
        "mask": triplet_weights.masks,
    }
    for argument, registry in families.items():
        lines |= {f"{argument}: {name}": registry.summary(name) for name in registry.names()}
    return lines
