"""How well each class is found, and what it is taken for."""

from __future__ import annotations

from collections import Counter
from typing import Any

from holdfast.errors import plural
from holdfast.report import formatting as fmt
from holdfast.report.context import CollectContext, PageContext, Section
from holdfast.run_files import finite

MOST = 1000
"""Rows of the table; the hardest classes where there are more."""


def collect(context: CollectContext) -> list[dict[str, Any]]:
    """Every class with something to find, the hardest first: R@1, mAP@R, and the class it is most often taken for."""
    from holdfast.metrics.retrieval import Retrieval

    searches, references = context.searches, context.subject.references
    vectors = references.clean(searches.rows)
    scores = Retrieval((1,)).per_query(references.embedded(vectors, searches.rows))["mAP@R"].tolist()
    labels, right = searches.labels.tolist(), searches.right.tolist()
    members: dict[int, list[int]] = {}
    for query, label in enumerate(labels):
        members.setdefault(label, []).append(query)
    found = references.labels[searches.found].tolist()
    listed = []
    for label, queries in members.items():
        wrong = Counter(found[query] for query in queries if not right[query])
        other, times = min(wrong.items(), key=lambda entry: (-entry[1], entry[0]), default=(None, 0))
        listed.append(
            {
                "name": context.name_of(label),
                "images": len(queries),
                "R@1": 100 * sum(right[query] for query in queries) / len(queries),
                "mAP@R": 100 * sum(scores[query] for query in queries) / len(queries),
                "taken_for": None if other is None else context.name_of(other),
                "times": times,
            }
        )
    return sorted(listed, key=lambda entry: (entry["R@1"], entry["mAP@R"], entry["name"]))


def show(context: PageContext) -> dict[str, Any]:
    """The table, the hardest classes first."""
    listed = [{**entry, "name": str(entry["name"])} for entry in context.exhibit("classes")]
    return {"title": _title(listed), "rows": listed[:MOST], "classes": len(listed)}


def _title(listed: list[dict[str, Any]]) -> str:
    """From the hardest to the easiest class, where they differ."""
    known = [value for entry in listed if (value := finite(entry.get("R@1"))) is not None]
    low, high = fmt.percent(min(known)), fmt.percent(max(known))
    if low == high:
        return f"R@1 is {low} in each of {fmt.count(len(listed))} classes"
    names = [entry["name"] for entry in listed if fmt.percent(entry.get("R@1")) == low]
    others = "" if len(names) == 1 else f" and {plural(len(names) - 1, 'other')}"
    return f"By class, R@1 goes from {low} ({fmt.short(names[0], 60)}{others}) to {high}"


SECTION = Section("classes", "Classes", show, {"classes": collect}, of_images=True)
