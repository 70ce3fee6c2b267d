"""Clean metrics, each with the explanation that it brings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.metric_info import MetricInfo
from holdfast.report import formatting as fmt
from holdfast.report.charts import meter
from holdfast.report.context import Absent, PageContext, Section, SectionContent
from holdfast.report.described import described
from holdfast.report.public import evaluate_command
from holdfast.report.sections.header import clean_recall
from holdfast.run_files import block, finite

COARSE = "coarse/"


def show(context: PageContext) -> SectionContent:
    """The table of clean figures."""
    value, _, document = clean_recall(context.files)
    metrics = block(document, "metrics")
    if value is None and not metrics:
        raise Absent("no figures yet", evaluate_command(context.files))
    images, split = fmt.count(document.get("images")), document.get("split")
    known = {key: info for key, info in described(document).items() if info.shown != "file"}
    own = {key: info for key, info in known.items() if key in metrics and not key.startswith(COARSE)}
    coarse = {f"{COARSE}{key}": info for key, info in known.items() if f"{COARSE}{key}" in metrics}
    content: dict[str, Any] = {
        "where": f"{images} images of the {split} split" if split else f"{images} images",
        "percent": _rows(document, ((key, info) for key, info in own.items() if info.percent)),
        "raw": _rows(document, ((key, info) for key, info in own.items() if not info.percent)),
        "coarse": _rows(document, ((key, info) for key, info in coarse.items() if info.percent)),
    }
    return SectionContent(f"Unchanged images: the nearest match is right {fmt.percent(value)} of the time", content)


def _rows(document: dict[str, Any], shown: Iterable[tuple[str, MetricInfo]]) -> list[dict[str, Any]]:
    metrics, intervals, undefined = (block(document, name) for name in ("metrics", "intervals", "undefined"))
    rows = []
    for key, info in shown:
        value, known = metrics[key], finite(metrics[key])
        written = fmt.with_interval(value, intervals.get(key), info.digits)
        rows.append(
            {
                "key": key.removeprefix(COARSE),
                "value": ("yes" if value else "no") if isinstance(value, bool) else written,
                "text": info.meaning.removesuffix(", %")
                + (f" – undefined here: {undefined.get(key, 'no reason given')}" if value is None else ""),
                "bar": meter(known, None, key) if info.percent and known is not None else "",
            }
        )
    return rows


SECTION = Section("clean", "Clean figures", show)
