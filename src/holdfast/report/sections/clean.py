"""Clean metrics, each with the explanation that it brings."""

from __future__ import annotations

from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.context import Absent, PageContext, Section
from holdfast.report.described import described
from holdfast.report.public import model_command
from holdfast.run_files import block, finite, outcome_lines, warning_lines
from holdfast.run_folder import RunFiles

COARSE = "coarse/"


def clean_recall(files: RunFiles) -> tuple[float | None, dict[str, Any]]:
    """R@1 and the document it is from: the evaluation, or an audit where there is none."""
    for document in (files.evaluation, *files.all_audits.values()):
        value = finite(block(document, "metrics").get("R@1"))
        if value is not None:
            return value, document
    return None, {}


def show(context: PageContext) -> dict[str, Any]:
    """The table of clean figures."""
    recall, document = clean_recall(context.files)
    metrics = block(document, "metrics")
    if not metrics:
        raise Absent("no figures yet", model_command("evaluate", context.files))
    known = {key: info for key, info in described(document).items() if info.shown != "file"}
    own = {key: info for key, info in known.items() if key in metrics and not key.startswith(COARSE)}
    return {
        "title": f"Unchanged images: the nearest match is right {fmt.percent(recall)} of the time",
        "document": document,
        "outcome": outcome_lines(document),
        "warnings": warning_lines(document),
        **{name: block(document, name) for name in ("metrics", "intervals", "undefined")},
        "percent": {key: info for key, info in own.items() if info.percent},
        "raw": {key: info for key, info in own.items() if not info.percent},
        "coarse": {f"{COARSE}{k}": info for k, info in known.items() if info.percent and f"{COARSE}{k}" in metrics},
    }


SECTION = Section("clean", "Clean figures", show)
