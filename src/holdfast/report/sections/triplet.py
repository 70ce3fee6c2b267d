"""Three pictures at their distances, before and after the attack."""

from __future__ import annotations

from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.sections.base import Section, Source

FARTHEST = 2.0
"""Two opposite points of the unit sphere."""


def triplet(source: Source) -> Section:
    """Two rulers that start at the anchor."""
    block = source.exhibit("triplet")
    longest = min(FARTHEST, 1.1 * max(float(block[key][pair]) for key in ("before", "after") for pair in ("ap", "an")))
    before, after = (_ruler(block[key], longest) for key in ("before", "after"))
    strength = fmt.eps(block.get("eps_pixel"))
    if not before["wrong"] and after["wrong"]:
        title = f"Changes of at most {strength} per pixel bring the wrong picture nearer than the right one"
    elif after["wrong"]:
        title = "The wrong picture is nearer than the right one, before the attack and after"
    else:
        title = f"The right picture stays nearer, even after changes of {strength} per pixel"
    content = {
        "pictures": {name: source.pictures.tag(block[name]) for name in ("anchor", "positive", "negative")},
        "labels": dict(zip(("anchor", "positive", "negative"), block["labels"], strict=True)),
        "rulers": [("Before", before), ("After the attack", after)],
    }
    return Section(title, content)


def _ruler(distances: dict[str, Any], longest: float) -> dict[str, Any]:
    near, far = float(distances["ap"]), float(distances["an"])
    return {
        "ap": fmt.number(near, 2),
        "an": fmt.number(far, 2),
        "ap_place": _place(near, longest),
        "an_place": _place(far, longest),
        "wrong": far < near,
    }


def _place(distance: float, longest: float) -> str:
    return f"{100 * min(1.0, max(0.0, distance / longest)):.2f}%"
