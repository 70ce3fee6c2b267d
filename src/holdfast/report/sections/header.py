"""The head of the page: what this is, and the four figures to know."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from holdfast.report import formatting as fmt
from holdfast.report.charts import meter
from holdfast.report.context import Absent, PageContext
from holdfast.report.public import audit_command, evaluate_command
from holdfast.report.sections.eps_curve import fall
from holdfast.report.sections.flags import all_flags
from holdfast.report.sections.recipe import sentence
from holdfast.report.sections.strips import listed_strips
from holdfast.run_files import block, finite
from holdfast.run_folder import DAMAGED, RunFiles


def header(context: PageContext) -> dict[str, Any]:
    """Name, sentences, one search as a proof, and tiles."""
    files = context.files
    return {
        "name": files.name,
        "kind": "Training run" if files.recipe else "Audit",
        "about": sentence(files),
        "finding": _finding(context),
        "other_data": context.other_data,
        "proof": [] if context.other_data else _proof(context),  # beside figures of its own data only
        "tiles": [_recall(files), _score(files), _cost(files), _flags(files)],
    }


def clean_recall(files: RunFiles) -> tuple[float | None, Any, dict[str, Any]]:
    """R@1 with its interval and where it is from: the evaluation's, or the audit's where there is none."""
    for document in (files.evaluation, files.audit, *files.audits.values()):
        value = finite(block(document, "metrics").get("R@1"))
        if value is not None:
            return value, block(document, "intervals").get("R@1"), document
    return None, None, {}


def _finding(context: PageContext) -> Markup:
    """The two figures that matter, in words; both of the same searches."""
    both = fall(context)
    recall, _, _ = clean_recall(context.files)
    if both is None and recall is None:
        return Markup("")
    right = Markup("The nearest match is right <strong>{}</strong> of the time")
    if both is None:
        return right.format(fmt.percent(recall)) + "."
    searches = "" if both.images is None else f" in {fmt.count(both.images)} searches"
    attacked = Markup("{}; after {} of at most {} per pixel, <strong>{}</strong>.")
    return right.format(fmt.percent(both.clean)) + attacked.format(
        searches, change_in_words(both.eps), fmt.eps(both.eps), fmt.percent(both.attacked)
    )


def _proof(context: PageContext) -> list[dict[str, Any]]:
    """The first search of the strips that an attack turned, or the first one; nothing without images."""
    try:
        listed = [s for s in listed_strips(context) if s["attacked"] and s["query"] and s["attacked"]["image"]]
    except (Absent, *DAMAGED):
        return []
    turned = [s for s in listed if s["right"] and not s["attacked"]["right"]]
    if not listed:
        return []
    strip = (turned or listed)[0]
    rows = (
        (strip["query"], "Query", strip["matches"]),
        (strip["attacked"]["image"], "Attacked", strip["attacked"]["matches"]),
    )
    return [
        {
            "query": query,
            "name": name,
            "match": matches[0]["image"],
            "label": matches[0]["label"],
            "right": matches[0]["right"],
        }
        for query, name, matches in rows
        if matches
    ]


def change_in_words(eps: float) -> str:
    """How a change of this size looks."""
    return "a barely visible change" if eps <= 8.5 / 255 else "a change"


def _recall(files: RunFiles) -> dict[str, Any]:
    value, interval, document = clean_recall(files)
    if value is None:
        return _tile("R@1", fmt.NONE, f"not measured yet: {evaluate_command(files)}")
    images = fmt.count(document.get("images"))
    note = f"of {images} {document.get('split') or ''} images find their class first".replace("  ", " ")
    ends = fmt.span(interval)
    return _tile("R@1, clean images", fmt.percent(value), note, chart=meter(value, ends, "R@1"))


def _score(files: RunFiles) -> dict[str, Any]:
    value = finite(block(files.audit, "metrics").get("ERS"))
    if value is None:
        return _tile("ERS, robustness", fmt.NONE, f"not audited yet: {audit_command(files)}")
    ends = fmt.span(block(files.audit, "intervals").get("ERS"))
    note = "of 100: what ten attacks leave standing, on average"
    return _tile("ERS, robustness", fmt.number(value), note, fmt.brackets(ends), meter(value, ends, "ERS"))


def _cost(files: RunFiles) -> dict[str, Any]:
    trained = files.training_seconds
    audit = sum(finite(v) or 0.0 for v in block(files.audit, "seconds").values())
    epochs = fmt.count(files.recipe.get("epochs"))
    notes = [f"{epochs} epochs of training"] if trained else []
    notes += [f"{fmt.duration(audit)} of attacks" if trained else "spent attacking"] if audit else []
    return _tile("Time", fmt.duration(trained or audit or None), ", then ".join(notes) or "not recorded")


def _flags(files: RunFiles) -> dict[str, Any]:
    if not (files.audit or files.audits):
        return _tile("Flags", fmt.NONE, "an audit looks for reasons to doubt its figures")
    flags = all_flags(files)
    serious = sum(flag["level"] != "note" for flag in flags)
    if not flags:
        return _tile("Flags", "0", "nothing suggests that these figures mislead")
    note = f"{fmt.plural(serious, 'reason')} to doubt these figures" if serious else "to know, none of them serious"
    return _tile("Flags", str(len(flags)), note)


def _tile(name: str, value: str, note: str, aside: str = "", chart: Markup | None = None) -> dict[str, Any]:
    return {"name": name, "value": value, "note": note, "aside": aside, "chart": chart or Markup("")}
