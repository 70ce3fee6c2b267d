"""How much of retrieval is left as attacks may change more."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.charts import PERCENT_TICKS, Axis, Label, Points, line_chart
from holdfast.report.context import GOAL, NO_POSITIVE, Absent, CollectContext, PageContext, Section
from holdfast.run_files import block, blocks, finite
from holdfast.run_folder import RunFiles

STORED = "radius"
"""Its key in `exhibits.json`."""


def collect(context: CollectContext) -> dict[str, Any]:
    """R@1 of the attacked queries at each eps; at zero they are as they were.

    From an eighth of the audit's eps to twice that. The attack counts as it was found, not rounded to 8 bits: at the
    smallest eps rounding would undo it.
    """
    found = context.attacked
    if bool(found.clean.isnan().all()):
        raise Absent(NO_POSITIVE)
    return {
        "goal": GOAL,
        "images": int((~found.clean.isnan()).sum()),
        "steps": context.budget.steps,
        "eps_pixel": [0.0, *found.eps],
        "R@1": [100 * float(hits.double().nanmean()) for hits in (found.clean, *found.hits)],
    }


@dataclasses.dataclass(frozen=True)
class Fall:
    """R@1 without and with an attack, both of the same queries.

    Args:
        clean: percent, without.
        attacked: percent, with.
        eps: of the attack in pixel units.
        images: how many queries.
    """

    clean: float
    attacked: float
    eps: float
    images: float | None


def fall(context: PageContext) -> Fall | None:
    """What an attack does to the data of the run's figures: of the curve, or of the audit's own ES:R."""
    files = context.files
    if context.other_data is None and (of_curve := _of_curve(files)):
        return of_curve
    metrics = block(files.audit, "metrics")
    clean, attacked = finite(metrics.get("R@1")), finite(metrics.get("ES:R"))
    eps = finite(block(files.audit, "budget").get("eps_pixel"))
    if clean is None or attacked is None or eps is None:
        return None
    return Fall(clean, attacked, eps, finite(files.audit.get("images")))


def _of_curve(files: RunFiles) -> Fall | None:
    """The curve's own start, and its point at the audit's eps; None where it lacks one of them."""
    wanted = finite(block(files.audit, "budget").get("eps_pixel")) or 8 / 255
    points = curve(files.exhibits.get(STORED))
    at = next(((eps, recall) for eps, recall in points if abs(eps - wanted) < 1e-6), None)
    if at is None or points[0][0] != 0:
        return None
    return Fall(points[0][1], at[1], at[0], finite(block(files.exhibits, STORED).get("images")))


def curve(stored: Any) -> Points:
    """(ε, R@1) of the exhibit, in order of ε; nothing where it is damaged, as a part of it would mislead."""
    if not isinstance(stored, dict):
        return []
    sizes, recalls = stored.get("eps_pixel"), stored.get("R@1")
    if not isinstance(sizes, list) or not isinstance(recalls, list) or len(sizes) != len(recalls):
        return []
    known = [(finite(a), finite(b)) for a, b in zip(sizes, recalls, strict=True)]
    points = sorted((a, b) for a, b in known if a is not None and b is not None and a >= 0)
    return points if len(points) == len(known) else []


def thorough_curve(audit: dict[str, Any]) -> Points:
    """The same of a thorough audit."""
    rows = blocks(audit, "curve")
    return curve({"eps_pixel": [row.get("eps") for row in rows], "R@1": [row.get("R@1") for row in rows]})


def show(context: PageContext) -> dict[str, Any]:
    """The curve, and that of a thorough audit where there is one."""
    stored, files = context.exhibit(STORED), context.files
    points = curve(stored)
    if not points:
        raise ValueError("a curve without points")
    lines = {"one attack": points}
    audits = [audit for audit in files.audits.values() if audit.get("protocol") == "thorough"]
    if audits and not context.other_data and (worst := thorough_curve(audits[0])):
        lines["worst of many attacks (thorough audit)"] = worst
    every = sorted({eps for line in lines.values() for eps, _ in line})
    ticks = [(doublings(eps), f"{255 * eps:.3g}") for eps in _apart(every)]
    x = Axis(0, doublings(every[-1]) or 1.0, ticks, "eps: largest change of a pixel, of its 255 levels")
    y = Axis(0, 100, PERCENT_TICKS, "R@1, percent")
    drawn = [(name, [(doublings(a), b) for a, b in line]) for name, line in lines.items()]
    labels = [
        Label(fmt.number(recall), x.place(doublings(eps)), y.place(recall), "end" if eps == every[-1] else "start")
        for eps, recall in points
    ]
    rows = [(fmt.eps(eps), fmt.percent(recall)) for eps, recall in points]
    if of_curve := _of_curve(files):
        words = fmt.change(of_curve.clean, of_curve.attacked, "rises", "falls", "stays")
        asked = "" if of_curve.images is None else f" of {fmt.counted(of_curve.images, 'query')}"
        title = f"R@1{asked} {words} at {fmt.eps(of_curve.eps)} per pixel"
    else:
        title = f"At {rows[-1][0]} per pixel, {rows[-1][1]} of the searches still succeed"
    desc = "; ".join(f"{eps}: {recall}" for eps, recall in rows)
    chart = line_chart(drawn, x, y, title, desc, dots=True, labels=labels, height=300)
    return {"title": title, "chart": chart, "stored": stored, "rows": rows}


def doublings(eps: float) -> float:
    """Where an eps lies on an axis on which it doubles at every step, and that begins at none: log2(1 + 255 ε)."""
    return math.log2(1 + 255 * eps)


def _apart(values: list[float]) -> list[float]:
    """Those values that leave room for a label between them, from the largest down."""
    kept = [values[-1]]
    for value in reversed(values[:-1]):
        if doublings(kept[-1]) - doublings(value) >= 0.09 * doublings(values[-1]):
            kept.append(value)
    return kept


SECTION = Section("eps", "Attack strength", show, {STORED: collect}, of_images=True)
