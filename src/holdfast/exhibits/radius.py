"""How much retrieval is left as the attack may change more."""

from __future__ import annotations

from typing import Any

from holdfast.exhibits.attacked import GOAL
from holdfast.exhibits.missing import Missing
from holdfast.exhibits.scene import Scene


def radius(scene: Scene) -> dict[str, Any]:
    """R@1 of the attacked queries at each radius; at zero they are as they were.

    Radii are an eighth to twice that of the audit. The attack counts as it was found, not rounded to 8 bits: at the
    smallest radii rounding would undo it.
    """
    found = scene.attacked
    if bool(found.clean.isnan().all()):
        raise Missing("no query has another image of its class to find")
    return {
        "goal": GOAL,
        "images": int((~found.clean.isnan()).sum()),
        "steps": scene.budget.steps,
        "eps_pixel": [0.0, *found.eps],
        "R@1": [100 * float(hits.double().nanmean()) for hits in (found.clean, *found.hits)],
    }
