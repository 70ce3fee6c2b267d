"""Everyday damage: R@1 by kind and strength, and one query under each kind."""

from __future__ import annotations

import csv
import io
from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.context import Absent, CollectContext, PageContext, Section
from holdfast.report.sections.strips import matches, shown_matches
from holdfast.run_files import block, finite

SHOWN = 3
"""The strength of the images."""
MOST = 24
"""Rows of the heat map; there are half as many kinds."""
WORDS = {
    "jpeg": "JPEG compression",
    "blur": "Out of focus",
    "noise": "Noise",
    "brightness": "Too bright",
    "contrast": "Low contrast",
    "saturation": "Colours faded or gaudy",
    "crop": "A part cut out",
    "padding": "A border around it",
    "rotation": "Crooked",
    "flip": "Mirrored or turned",
    "downscaling": "Reduced and enlarged",
    "overlay": "Text and a sticker",
    "patch": "A hostile patch",
}
"""Every kind, for people."""


def collect(context: CollectContext) -> dict[str, Any]:
    """One query under every kind of damage at the middle strength and, last, under a patch, and what each finds first.

    The seed draws the query among those that are right without damage, if there are any.
    """
    import torch

    from holdfast import seeds
    from holdfast.attacks.patch import AREA
    from holdfast.audit.damage import DAMAGES, damaged
    from holdfast.audit.natural import PATCH, misrank, patched

    subject, searches = context.subject, context.searches
    rows = searches.rows[searches.right] if bool(searches.right.any()) else searches.rows
    row = rows[torch.randint(len(rows), (1,), generator=seeds.generator(context.seed, "damage")).to(rows.device)]
    query, label = subject.images(row), context.name_of(subject.labels[row[0]])

    def shown(kind: str, image: Any, vector: Any) -> dict[str, Any]:
        words = WORDS[kind].lower() if kind != "jpeg" else WORDS[kind]
        picture = context.images.seen(image, f"query, {label}, {words}")
        return {"kind": kind, "picture": picture, "matches": matches(context, vector, row[0], 1)}

    listed = []
    for kind in DAMAGES:
        (image,) = damaged(kind, query, subject.generator("damage", kind), [SHOWN])
        listed.append(shown(kind, image[0], subject.encode(image)[0]))
    if subject.differentiable:
        found = patched(subject, row, misrank(subject, row), AREA, 0)
        listed.append(shown(PATCH, found.images[0], found.vectors[0]))
    return {
        "label": label,
        "strength": SHOWN,
        "query": context.images.seen(query[0], f"query, {label}"),
        "matches": matches(context, subject.references.clean(row)[0], row[0], 1),
        "kinds": listed,
    }


def show(context: PageContext) -> dict[str, Any]:
    """The heat map, the patch, and the images where they were collected."""
    audits = [audit for audit in context.files.current_audits.values() if audit.get("protocol") == "natural"]
    if not audits:
        raise Absent("not audited for everyday damage")
    audit = audits[0]
    metrics, intervals, ends = (block(audit, key) for key in ("metrics", "intervals", "natural_intervals"))
    clean = finite(metrics.get("R@1"))
    rows = [_row(str(kind), values, clean) for kind, values in list(block(audit, "natural").items())[:MOST]]
    return {
        "title": _title(metrics, rows),
        "audit": audit,
        "rows": rows,
        "strengths": range(1, 1 + max((len(row["cells"]) for row in rows), default=0)),
        "clean": fmt.with_interval(clean, intervals.get("R@1")),
        "mean": fmt.with_interval(metrics.get("natural R@1"), intervals.get("natural R@1")),
        "file": _csv(rows, ends),
        "patch": block(audit, "patch"),
        "patched": fmt.with_interval(metrics.get("patch R@1"), intervals.get("patch R@1")),
        "strip": _strip(context),
    }


def _row(kind: str, values: Any, clean: float | None) -> dict[str, Any]:
    """A row of the heat map; colour is the share of clean R@1 that is left."""
    if not isinstance(values, list):
        raise ValueError("a kind of damage without figures")
    cells = [{"value": finite(value), "left": _left(finite(value), clean)} for value in values[:MOST]]
    known = [cell["value"] for cell in cells if cell["value"] is not None]
    mean = sum(known) / len(known) if known else None
    loss = None if mean is None or clean is None else clean - mean
    return {"kind": kind, "words": WORDS.get(kind, kind), "cells": cells, "mean": mean, "loss": loss}


def _left(value: float | None, clean: float | None) -> float:
    return 0.0 if value is None or not clean or clean < 0 else min(100.0, max(0.0, 100 * value / clean))


def _title(metrics: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """What damage costs on average, and which kind the most."""
    loss, patch = finite(metrics.get("natural loss")), metrics.get("patch R@1")
    if loss is None:
        return f"A hostile patch leaves R@1 at {fmt.percent(patch)}"
    worst = max((row for row in rows if row["loss"] is not None), key=lambda row: row["loss"], default=None)
    most = f"; most by {worst['kind']}, {fmt.number(worst['loss'])}" if worst and len(rows) > 1 else ""
    return f"Everyday damage costs {fmt.number(loss)} points of R@1 on average{fmt.short(most, 60)}"


def _csv(rows: list[dict[str, Any]], ends: dict[str, Any]) -> str:
    """Unrounded figures with their intervals, a line for each kind and strength."""
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(["kind", "strength", "R@1", "R@1 low", "R@1 high"])
    for row in rows:
        spans = ends.get(row["kind"])
        for place, cell in enumerate(row["cells"]):
            span = fmt.span(spans[place]) if isinstance(spans, list) and place < len(spans) else None
            lines.writerow([row["kind"], place + 1, cell["value"], *(span or ("", ""))])
    return file.getvalue()


def _strip(context: PageContext) -> dict[str, Any] | None:
    """The query under each kind with its images; None where none were collected, or of other data."""
    stored = block(context.files.exhibits, "damage")
    if not stored or context.other_data:
        return None
    parts = [{"kind": "", "picture": stored.get("query"), "matches": stored["matches"]}, *stored["kinds"][:MOST]]
    listed = [
        {
            "words": WORDS.get(part["kind"], str(part["kind"])) or "Undamaged",
            "image": context.images.tag(part.get("picture")),
            "match": next(iter(shown_matches(part["matches"], context.images)), None),
        }
        for part in parts
    ]
    return {"label": stored["label"], "strength": stored.get("strength"), "parts": listed}


SECTION = Section("natural", "Everyday damage", show, {"damage": collect}, optional=True)
