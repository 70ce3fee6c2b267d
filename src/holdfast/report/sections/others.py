"""Audits of other protocols and modes, in one table."""

from __future__ import annotations

from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.context import Absent, PageContext, Section
from holdfast.run_files import block


def show(context: PageContext) -> dict[str, Any]:
    """R@1 that each attack of each other audit leaves."""
    audits = {name: audit for name, audit in context.files.audits.items() if audit.get("protocol") != "natural"}
    rows = []
    for name, audit in audits.items():
        metrics, intervals, known = block(audit, "metrics"), block(audit, "intervals"), fmt.described(audit)
        for key, value in metrics.items():
            if key == "R@1" or key.endswith(("/R@1", " R@1")):
                attack, _, _ = key.rpartition("/" if "/R@1" in key else " ")
                meaning = known[key].meaning.removesuffix(", %") if key in known else f"R@1, {attack}"
                rows.append(
                    {
                        "file": name,
                        "protocol": f"{audit.get('protocol')}, {audit.get('mode')}",
                        "attack": f"{attack.removeprefix('eps=')}: {meaning}" if attack else meaning,
                        "value": fmt.with_interval(value, intervals.get(key)),
                    }
                )
    if not rows:
        raise Absent("no other audit; `adml`, `stax` and `thorough` ask other questions")
    asks = "audit asks" if len(audits) == 1 else "audits ask"
    return {"title": f"{len(audits)} further {asks} other questions", "rows": rows}


SECTION = Section("others", "Other audits", show, optional=True)
