"""An audit as a person reads it in the terminal."""

from __future__ import annotations

import textwrap
from typing import Any

from holdfast.console import figure, table
from holdfast.metric_info import stored


def audit_table(document: dict[str, Any]) -> str:
    """Figures with intervals and meanings, then the flags with advice."""
    rows, described = [], stored(document)
    for key, value in document["metrics"].items():
        interval = document["intervals"].get(key)
        ends = f"{figure(interval[0])} to {figure(interval[1])}" if interval else ""
        rows.append((key, figure(value), ends, described[key].meaning if key in described else ""))
    columns = ["figure", "value", "95 % interval", "meaning"]
    text = table(columns, rows, left=(3,))
    budget = document["budget"]
    eps = f"eps {255 * budget['eps_pixel']:.3g}/255 ({budget['eps_normalized']:.3g} normalised)"
    batches = document.get("settings", {}).get("batches")
    mode = f"{document['mode']}, batches {batches}" if batches else document["mode"]
    head = (
        f"{document['protocol']} ({mode}) on {document['images']:,} images against a gallery of "
        f"{document['gallery']:,}; {eps}, {budget['steps']} steps"
    )
    limited = "\nA subset was attacked: mind the intervals." if document["limit"] else ""
    return f"{head}{limited}\n{text}\n{_flags(document['flags'])}"


def _flags(flags: list[dict[str, Any]]) -> str:
    if not flags:
        return "No flags: nothing suggests that these figures mislead."
    lines = []
    for flag in flags:
        lines.append(f"{flag['level'].upper()} {flag['name']}: {flag['why']}.")
        lines.append(textwrap.indent(flag["advice"], "    "))
    return "\n".join(lines)
