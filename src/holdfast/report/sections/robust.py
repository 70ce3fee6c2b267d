"""Robust R@1: what the worst of a fixed ensemble of attacks leaves, and which attack broke how many queries first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.audit.ers import SCORES
from holdfast.report import formatting as fmt
from holdfast.report.context import Absent, PageContext, Section
from holdfast.report.public import public_text
from holdfast.report.sections.attacks import WISHES
from holdfast.robustness import ENTERS, LEAVES, Robustness, worst_case
from holdfast.run_files import block, finite

ATTACKS = {score.goal: WISHES[key][0] for key, score in SCORES.items()}
"""What those of ERS want."""
ENSEMBLE = {
    "apgd-misrank": "Bring a wrong image before the right ones",
    "apgd-soft-misrank": "The same, with all near images at once",
    "apgd-target": "Towards one of the nearest wrong classes",
    "apgd-gtm": "Towards the nearest wrong image, from a random start",
    "apgd-es": "Move the query as far away as possible",
    "square": "Random search, without gradients",
}
"""What those of the ensemble want, by what their names begin with."""
MOVES = {
    ENTERS: "enters the first {} of a search",
    LEAVES: "leaves the first {} of a search",
}


def show(context: PageContext) -> dict[str, Any]:
    """R@1 as it falls from attack to attack, and the gallery's side."""
    found = worst_case(context.files.current_audits.values())
    if found is None:
        raise Absent("no audit that measured robust R@1")
    audit, worst = found
    metrics, intervals, told = block(audit, "metrics"), block(audit, "intervals"), block(audit, "robust")
    title = f"{fmt.percent(worst.robust)} of the searches hold whatever the attack"
    title = title if worst.robust else "Every search can be broken"
    broken = _rows(worst, block(told, "broken_by"))
    return {
        "title": "Robust R@1 is not to be trusted here" if worst.doubted else title,
        "worst": worst,
        "doubts": [public_text(why) for why in worst.doubts if worst.doubted],
        "rows": [row for row in broken if row["broken"]],
        "idle": [row["name"] for row in broken if not row["broken"]],
        "gallery": [
            (words.format(fmt.short(key.removeprefix(start), 8)), fmt.with_interval(metrics[key], intervals.get(key)))
            for start, words in MOVES.items()
            for key in metrics
            if key.startswith(start) and finite(metrics[key]) is not None
        ],
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
        own = next((words for start, words in ENSEMBLE.items() if name.startswith(start)), "Attack")
        rows.append({"name": name, "words": ATTACKS.get(name, own), "broken": broken, "left": left})
    return rows


def cost_words(told: Mapping[str, Any]) -> str:
    """What the ensemble cost: `12,300 passes, 3 min`; nothing where the audit does not say."""
    passes, seconds = finite(told.get("passes")), finite(told.get("seconds"))
    words = [f"{fmt.count(passes)} passes"] if passes else []
    return ", ".join([*words, *([fmt.duration(seconds)] if seconds else [])])


SECTION = Section("robust", "Robust R@1", show, optional=True)
