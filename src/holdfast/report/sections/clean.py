"""Clean metrics, each with the explanation that it brings."""

from __future__ import annotations

import dataclasses
from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.context import Absent, PageContext, Section
from holdfast.report.public import model_command
from holdfast.robustness import of_ensemble
from holdfast.run_files import ON_TEST, START, block, finite, outcome_lines
from holdfast.run_folder import RunFiles

COARSE = "coarse/"


def clean_recall(files: RunFiles) -> tuple[float | None, dict[str, Any]]:
    """R@1 and the document it is from: the evaluation, or an audit where there is none."""
    for document in (files.evaluation, *files.all_audits.values()):
        value = finite(block(document, "metrics").get("R@1"))
        if value is not None:
            return value, document
    return None, {}


@dataclasses.dataclass(frozen=True)
class CleanRecall:
    """R@1 of unchanged images, and of how many.

    Args:
        value: percent.
        images: how many were asked.
        split: of the data, if it is known.
        sampled: whether only a sample of the split was asked, as audits with a limit do.
        ends: the 95 % interval, if there is one.
        before: percent of the same images for the model that training started from, if it was measured.
        of: which model that was.
    """

    value: float
    images: float | None
    split: str
    sampled: bool = False
    ends: tuple[float, float] | None = None
    before: float | None = None
    of: str = ""


def whole_recall(context: PageContext) -> CleanRecall | None:
    """R@1 of the whole evaluation; of a model that was only audited, of all searches of its page, else of the audit."""
    value, document = clean_recall(context.files)
    failures = block(context.files.exhibits, "failures")
    searches, wrong = finite(failures.get("searches")), finite(failures.get("wrong"))
    own = not context.files.evaluation and context.other_data is None
    if own and searches and wrong is not None and document.get("limit"):
        return CleanRecall(100 * (1 - wrong / searches), searches, str(document.get("split") or ""))
    if value is None:
        return None
    images, ends = finite(document.get("images")), fmt.span(block(document, "intervals").get("R@1"))
    start, limited = block(document, START), bool(document.get("limit"))
    before, of = finite(start.get(ON_TEST)), str(start.get("of") or "the untrained model")
    return CleanRecall(value, images, str(document.get("split") or ""), limited, ends, before, of)


def show(context: PageContext) -> dict[str, Any]:
    """The table of clean figures."""
    recall, document = clean_recall(context.files)
    metrics = block(document, "metrics")
    if not metrics:
        raise Absent("no figures yet", model_command("evaluate", context.files))
    known = {key: info for key, info in fmt.described(document).items() if info.shown != "file"}
    attacked = {*block(document, "intervals")} - {"R@1"} if document.get("protocol") else set()
    clean = {k: info for k, info in known.items() if k in metrics and k not in attacked and not of_ensemble(k)}
    own = {key: info for key, info in clean.items() if not key.startswith(COARSE)}
    sample = f" in a sample of {fmt.count(document.get('images'))}" if document.get("limit") else ""
    return {
        "title": f"Unchanged images: the nearest match is right {fmt.percent(recall)} of the time{sample}",
        "document": document,
        "outcome": outcome_lines(document),
        **{name: block(document, name) for name in ("metrics", "intervals", "undefined")},
        "percent": {key: info for key, info in own.items() if info.percent},
        "raw": {key: info for key, info in own.items() if not info.percent},
        "coarse": {f"{COARSE}{k}": info for k, info in known.items() if info.percent and f"{COARSE}{k}" in metrics},
    }


SECTION = Section("clean", "Clean figures", show)
