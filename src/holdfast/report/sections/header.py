"""The head of the page: what this is, and the few figures to know."""

from __future__ import annotations

from typing import Any

from holdfast.errors import plural
from holdfast.report import formatting as fmt
from holdfast.report.context import Absent, PageContext
from holdfast.report.public import model_command, public_text
from holdfast.report.sections.attacks import ers_terms
from holdfast.report.sections.clean import CleanRecall, whole_recall
from holdfast.report.sections.eps_curve import fall
from holdfast.report.sections.flags import all_flags, count_serious
from holdfast.report.sections.recipe import sentence
from holdfast.report.sections.strips import listed_strips
from holdfast.robustness import NATURAL, Robustness, doubts, worst_case
from holdfast.run_files import block, finite
from holdfast.run_folder import DAMAGED, RunFiles

VISIBLE = 8.5 / 255
"""A larger change of every pixel is seen."""


def header(context: PageContext) -> dict[str, Any]:
    """Name, sentences, one search as a proof, and tiles."""
    files, recall, found = context.files, whole_recall(context), worst_case(context.files.current_audits.values())
    worst = found[1] if found else None
    both = None if worst else fall(context)
    return {
        "name": files.name,
        "kind": "Training run" if files.recipe else "Audit",
        "about": sentence(files),
        "recall": None if recall is None or recall.sampled else recall,
        "worst": worst,
        "doubts": [public_text(why) for why in worst.doubts] if worst else [],
        "fall": both,
        "change": "a barely visible change" if both and both.eps <= VISIBLE else "a change",
        "other_data": context.other_data,
        "proof": [] if context.other_data else _proof(context),  # beside figures of its own data only
        "tiles": [
            _recall(files, recall),
            *([_robust(worst)] if worst else []),
            _score(files),
            *_natural(files),
            _cost(files),
            _flags(files),
        ],
    }


def _proof(context: PageContext) -> list[dict[str, Any]]:
    """The first search of the strips that an attack turned, or the first one; nothing without images."""
    try:
        listed = [s for s in listed_strips(context) if s["attacked"] and s["query"] and s["attacked"]["image"]]
    except (Absent, *DAMAGED):
        return []
    if not listed:
        return []
    turned = [s for s in listed if s["right"] and not s["attacked"]["right"]]
    strip = (turned or listed)[0]
    rows = ((strip["query"], "Query", strip), (strip["attacked"]["image"], "Attacked", strip["attacked"]))
    return [{"query": image, "name": name, "match": s["matches"][0]} for image, name, s in rows if s["matches"]]


def _tile(
    name: str, value: str, note: str, aside: str = "", meter: Any = None, doubted: bool = False
) -> dict[str, Any]:
    """A figure and what it is; `meter` draws it on a rail: value, interval and what is measured."""
    note = f"not to be trusted, see Reliability; {note}" if doubted else note
    return {"name": name, "value": value, "note": note, "aside": aside, "meter": meter, "terms": {}, "doubted": doubted}


def _recall(files: RunFiles, recall: CleanRecall | None) -> dict[str, Any]:
    if recall is None:
        return _tile("R@1", fmt.NONE, f"not measured yet: {model_command('evaluate', files)}")
    kind = " ".join(word for word in ("sampled" if recall.sampled else "", recall.split) if word)
    note = f"of {fmt.counted(recall.images, f'{kind} image'.lstrip())} find their class first"
    note += "" if recall.before is None else f"; {fmt.percent(recall.before)} before training"
    return _tile("R@1, clean images", fmt.percent(recall.value), note, meter=(recall.value, recall.ends, "R@1"))


def _robust(worst: Robustness) -> dict[str, Any]:
    asked = fmt.counted(worst.queries, "attacked query")
    note = f"of {asked} find their class whatever the attack, when {worst.change}"
    meter = worst.robust, worst.ends, "robust R@1"
    return _tile("Robust R@1", fmt.percent(worst.robust), note, fmt.brackets(worst.ends), meter, worst.doubted)


def _natural(files: RunFiles) -> list[dict[str, Any]]:
    """The tile of everyday damage, where that was measured."""
    tiles = []
    for audit in files.current_audits.values():
        metrics, ends = block(audit, "metrics"), fmt.span(block(audit, "intervals").get(NATURAL))
        if (value := finite(metrics.get(NATURAL))) is not None:
            note = f"R@1, the mean over kinds and strengths; {fmt.percent(metrics.get('R@1'))} without damage"
            tiles.append(_tile("Everyday damage", fmt.percent(value), note, fmt.brackets(ends), (value, ends, NATURAL)))
    return tiles[:1]


def _score(files: RunFiles) -> dict[str, Any]:
    value = finite(block(files.audit, "metrics").get("ERS"))
    if value is None:
        return _tile("ERS, robustness", fmt.NONE, f"not audited yet: {model_command('audit', files)}")
    ends = fmt.span(block(files.audit, "intervals").get("ERS"))
    note = "of 100: the mean of what these ten attacks leave standing"
    doubted = bool(doubts(files.audit))
    tile = _tile("ERS, robustness", fmt.number(value), note, fmt.brackets(ends), (value, ends, "ERS"), doubted)
    return {**tile, "terms": ers_terms(files.audit)}


def _cost(files: RunFiles) -> dict[str, Any]:
    trained = files.training_seconds
    parts = [*block(files.main_audit, "seconds").values(), block(files.main_audit, "robust").get("seconds")]
    audit = sum(finite(seconds) or 0.0 for seconds in parts)
    notes = [f"{fmt.counted(files.recipe.get('epochs'), 'epoch')} of training"] if trained else []
    notes += [f"{fmt.duration(audit)} of attacks" if trained else "spent attacking"] if audit else []
    return _tile("Time", fmt.duration(trained or audit or None), ", then ".join(notes) or "not recorded")


def _flags(files: RunFiles) -> dict[str, Any]:
    if not files.all_audits and not all_flags(files):
        return _tile("Flags", fmt.NONE, "an audit looks for reasons to doubt its figures")
    flags = all_flags(files)
    if not flags:
        return _tile("Flags", "0", "nothing suggests that these figures mislead")
    serious = count_serious(flags)
    note = f"{plural(serious, 'reason')} to doubt these figures" if serious else "to know, none of them serious"
    return _tile("Flags", str(len(flags)), note)
