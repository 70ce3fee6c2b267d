"""Clean metrics, with a plain explanation each."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from holdfast.report import formatting as fmt
from holdfast.report.charts.meter import meter
from holdfast.report.sections.base import Absent, Section, Source
from holdfast.report.sections.header import clean_recall
from holdfast.report.sections.public import evaluate_command
from holdfast.report.sections.recipe import block
from holdfast.run_files import finite

PERCENT = {
    "R@1": "the nearest picture is of the same class",
    "R@2": "one of the two nearest is",
    "R@4": "one of the four nearest is",
    "R@8": "one of the eight nearest is",
    "R@10": "one of the ten nearest is",
    "R@100": "one of the hundred nearest is",
    "mAP": "all pictures of the class come before the others (mean average precision)",
    "mAP@R": "the same, looking only as far down as the class has pictures",
    "mAP@C": "the same with the query counted among them, so that below 100 is the best there is",
    "NMI": "groups found without labels agree with the classes",
    "NMI+": "the same with several groups per class, which forgives a class of several clumps",
}
RAW = {
    "distance_positive": "mean distance of two pictures of one class (0 to 2)",
    "distance_negative": "mean distance of two pictures of different classes",
    "distance_all": "mean distance of any two pictures",
    "effective_rank": "dimensions of the embedding that are in use",
    "pi_ratio": "distance within classes over distance between them; small is compact",
    "collapsed": "whether every picture lies near every other",
}


def clean(source: Source) -> Section:
    """The table of clean figures."""
    value, _, document = clean_recall(source.files)
    metrics = block(document, "metrics")
    if value is None and not metrics:
        raise Absent("no figures yet", evaluate_command(source.files))
    images, split = fmt.count(document.get("images")), document.get("split")
    content: dict[str, Any] = {
        "where": f"{images} pictures of the {split} split" if split else f"{images} pictures",
        "percent": _rows(document, PERCENT, 1),
        "raw": _rows(document, RAW, 3),
        "coarse": _rows(document, {f"coarse/{key}": text for key, text in PERCENT.items()}, 1),
    }
    return Section(f"Unchanged pictures: the nearest match is right {fmt.percent(value)} of the time", content)


def _rows(document: dict[str, Any], keys: dict[str, str], digits: int) -> list[dict[str, Any]]:
    metrics, intervals, undefined = (block(document, name) for name in ("metrics", "intervals", "undefined"))
    rows = []
    for key, text in keys.items():
        if key not in metrics:
            continue
        value = metrics[key]
        shown = ("yes" if value else "no") if isinstance(value, bool) else fmt.number(value, digits)
        if fmt.span(intervals.get(key)) and not isinstance(value, bool):
            shown = fmt.with_interval(value, intervals[key], digits)
        reason = f" – undefined here: {undefined.get(key, 'no reason given')}" if value is None else ""
        rows.append(
            {"key": key.removeprefix("coarse/"), "value": shown, "text": text + reason, "bar": _bar(key, value)}
        )
    return rows


def _bar(key: str, value: Any) -> Markup:
    known = finite(value)
    return Markup("") if known is None or key in RAW else meter(known, None, key)
