"""The embedding map: one dot for each picture."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from holdfast.report import formatting as fmt
from holdfast.report.sections.base import Section, Source

COLOURS = 7
FRAME, LEAST_HEIGHT = 45, 400
"""Margin around the dots and least height between them, in units of a map of 1000."""


def projection(source: Source) -> Section:
    """Dots with what the page's script needs to show a thumbnail and to highlight a class."""
    block = source.exhibit("map")
    places = [(float(x), float(y)) for x, y in block["points"]]
    labels = [int(label) for label in block["labels"]]
    names = [str(name) for name in block["names"]]
    if len(places) != len(labels) or not places or not 0 <= min(labels) <= max(labels) < len(names):
        raise ValueError("points and labels do not belong together")
    spots, height = fitted(places)
    dots = Markup("").join(
        Markup('<circle class="s{}" cx="{:.1f}" cy="{:.1f}" r="9"/>').format(1 + label % COLOURS, x, y)
        for (x, y), label in zip(spots, labels, strict=True)
    )
    classes = len(set(labels))
    share = neighbour_share(places, labels)
    title = f"On the map, {fmt.percent(share)} of {len(places):,} pictures lie next to one of their own class"
    content = {
        "dots": dots,
        "height": f"{height:.1f}",
        "title": title,
        "method": str(block.get("method", "")),
        "classes": classes,
        "names": sorted({(names[label], label) for label in labels}, key=lambda pair: pair[0].casefold()),
        "data": {"labels": labels, "names": names, "sprite": _sprite(block.get("sprite"), source)},
    }
    return Section(title, content)


def neighbour_share(places: list[tuple[float, float]], labels: list[int]) -> float:
    """How many dots have one of their own class as nearest dot, in percent."""
    hits = 0
    for n, (x, y) in enumerate(places):
        others = ((a - x) ** 2 + (b - y) ** 2 if m != n else float("inf") for m, (a, b) in enumerate(places))
        nearest = min(zip(others, labels, strict=True), default=(0.0, -1))
        hits += nearest[1] == labels[n] and len(places) > 1
    return 100 * hits / len(places)


def fitted(places: list[tuple[float, float]]) -> tuple[list[tuple[float, float]], float]:
    """The places on a map of a thousand units' width without empty margins, y downwards, and the map's height."""
    left, low = min(x for x, _ in places), min(y for _, y in places)
    width, height = max(x for x, _ in places) - left, max(y for _, y in places) - low
    scale = (1000 - 2 * FRAME) / max(width, height, 1e-9)
    aside, above = (1000 - 2 * FRAME - width * scale) / 2, max(0.0, (LEAST_HEIGHT - height * scale) / 2)
    spots = [(FRAME + aside + (x - left) * scale, FRAME + above + (low + height - y) * scale) for x, y in places]
    return spots, 2 * (FRAME + above) + height * scale


def _sprite(sprite: Any, source: Source) -> dict[str, Any] | None:
    if not isinstance(sprite, dict):
        return None
    picture = source.pictures.source(sprite.get("file"))
    if picture is None:
        return None
    return {"source": picture, "tile": int(sprite["tile"]), "columns": int(sprite["columns"])}
