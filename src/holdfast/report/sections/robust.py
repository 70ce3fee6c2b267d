"""Robust R@1: what the worst of a fixed ensemble of attacks leaves, and which attack broke how many queries first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.context import Absent, PageContext, Section
from holdfast.report.public import public_text
from holdfast.robustness import GALLERY, Robustness, worst_case
from holdfast.run_files import block, finite


def show(context: PageContext) -> dict[str, Any]:
    """R@1 as it falls from attack to attack, and the gallery's side."""
    found = worst_case(context.files.current_audits.values())
    if found is None:
        raise Absent("no audit that measured robust R@1")
    audit, worst = found
    metrics, intervals, told = block(audit, "metrics"), block(audit, "intervals"), block(audit, "robust")
    title = f"{fmt.percent(worst.robust)} of the searches hold whatever the attack"
    entering, leaving = (fmt.with_interval(metrics.get(key), intervals.get(key)) for key in GALLERY)
    return {
        "title": "Robust R@1 is not to be trusted here" if worst.doubts else title,
        "worst": worst,
        "doubts": [public_text(why) for why in worst.doubts],
        "rows": _rows(worst, block(told, "broken_by")),
        "entering": entering,
        "leaving": leaving,
        "has_gallery": any(finite(metrics.get(key)) is not None for key in GALLERY),
        "cost": cost_words(told),
    }


def _rows(worst: Robustness, broken_by: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each attack, how many queries it was the first to break, and what is left after it."""
    rows, left = [], worst.clean
    for name, counted in broken_by.items():
        broken = finite(counted)
        if broken is None or not worst.queries:
            continue
        left = max(0.0, left - 100 * broken / worst.queries)
        rows.append({"name": name, "broken": broken, "left": left})
    return rows


def cost_words(told: Mapping[str, Any]) -> str:
    """What the ensemble cost: `12,300 passes, 3 min`; nothing where the audit does not say."""
    passes, seconds = finite(told.get("passes")), finite(told.get("seconds"))
    words = [f"{fmt.count(passes)} passes"] if passes else []
    return ", ".join([*words, *([fmt.duration(seconds)] if seconds else [])])


SECTION = Section("robust", "Robust R@1", show, optional=True)
