"""Searches before and after the query was attacked."""

from __future__ import annotations

import itertools
from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.sections.base import Section, Source
from holdfast.report.sections.recipe import block
from holdfast.run_files import finite

SHOWN = 4
"""So many are open; the rest is folded."""


def strips(source: Source) -> Section:
    """Every strip with its pictures."""
    listed = mixed(listed_strips(source))
    attacked = any(strip["attacked"] for strip in listed)
    outcomes = block(source.files.exhibits, "outcomes")
    fooled, held = (finite(outcomes.get(kind)) for kind in ("fooled", "held"))
    if attacked and fooled is not None and held is not None and fooled + held > 0:
        title = f"Of {fooled + held:,.0f} searches that were right, {fooled:,.0f} go wrong after the attack"
    else:
        title = f"What {len(listed)} searches find"
    content = {
        "shown": listed[:SHOWN],
        "more": listed[SHOWN:],
        "strength": source.strength,
        "attacked": attacked,
    }
    return Section(title, content)


def listed_strips(source: Source) -> list[dict[str, Any]]:
    """All strips, as they are stored."""
    return [_strip(strip, source) for strip in source.exhibit("strips")]


def mixed(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In turn one that the attack fooled, one that held and one wrong before, so that the first few show all kinds."""
    kinds: dict[tuple[bool, bool], list[dict[str, Any]]] = {}
    for strip in listed:
        fooled = bool(strip["attacked"]) and not strip["attacked"]["right"]
        kinds.setdefault((strip["right"], fooled and strip["right"]), []).append(strip)
    return [strip for turn in itertools.zip_longest(*kinds.values()) for strip in turn if strip is not None]


def _strip(strip: dict[str, Any], source: Source) -> dict[str, Any]:
    attacked = block(strip, "attacked")
    matches = [_match(match, source) for match in strip["matches"]]
    return {
        "label": strip["label"],
        "query": source.pictures.tag(strip["query"]),
        "matches": matches,
        "right": bool(matches and matches[0]["right"]),
        "attacked": _attacked(attacked, source) if attacked else None,
    }


def _attacked(attacked: dict[str, Any], source: Source) -> dict[str, Any]:
    matches = [_match(match, source) for match in attacked["matches"]]
    return {
        "picture": source.pictures.tag(attacked["picture"]),
        "change": source.pictures.tag(attacked["change"]),
        "amplified": fmt.number(attacked.get("amplified"), 0),
        "eps": fmt.eps(attacked.get("eps_pixel")),
        "matches": matches,
        "right": bool(matches and matches[0]["right"]),
    }


def _match(match: dict[str, Any], source: Source) -> dict[str, Any]:
    return {
        "picture": source.pictures.tag(match["picture"]),
        "label": match["label"],
        "right": match["right"] is True,
        "distance": fmt.number(match.get("distance"), 2),
    }
