"""The ten ranking attacks: what each wanted, and how often it worked."""

from __future__ import annotations

import dataclasses
from typing import Any

from markupsafe import Markup

from holdfast.audit.ers import TERMS
from holdfast.report import formatting as fmt
from holdfast.report.charts.meter import meter
from holdfast.report.sections.base import Absent, Section, Source
from holdfast.report.sections.flags import flags_of
from holdfast.report.sections.protocols import USUAL_STEPS, usual_eps
from holdfast.report.sections.public import audit_command
from holdfast.report.sections.recipe import block
from holdfast.run_files import finite
from holdfast.run_folder import RunFolder

TINY = 1e-6


@dataclasses.dataclass(frozen=True)
class Wish:
    """What an attacker wants.

    Args:
        text: in plain words.
        outcome: what happened, with `{}` for the measured figure.
        digits: decimals of the figure.
    """

    text: str
    outcome: str
    digits: int = 1


WISHES: dict[str, Wish] = {
    "CA+": Wish(
        "Push a picture up in a stranger's search",
        "On average the changed picture ended {} % down the list, where 0 % is the top; without an attack, 50 %.",
    ),
    "CA-": Wish(
        "Push a picture out of a search it belongs to",
        "The changed picture fell from the top to place {} of 100.",
    ),
    "QA+": Wish(
        "Change a query so that a chosen picture comes up",
        "On average the chosen picture ended {} % down the list, where 0 % is the top; without an attack, 50 %.",
    ),
    "QA-": Wish(
        "Change a query so that a fitting picture disappears",
        "The fitting picture fell from the top to place {} of 100.",
    ),
    "TMA": Wish(
        "Make a query pass for a chosen other picture",
        "Their likeness (cosine) reached {}; 1 would be the same picture, 0 nothing in common.",
        2,
    ),
    "ES:D": Wish(
        "Move a picture as far away as possible",
        "The embedding moved by {} of at most 2.",
        2,
    ),
    "ES:R": Wish(
        "Move a query away, then search with it",
        "{} % of the moved queries still find their class first.",
    ),
    "LTM": Wish(
        "Pull pictures of other classes near the query",
        "{} % of the queries still find their class first.",
    ),
    "GTM": Wish(
        "Pull the nearest wrong picture nearer still",
        "{} % of the queries still find their class first.",
    ),
    "GTT": Wish(
        "Push the best match out of the first four",
        "{} % of the queries keep their best match among the first four.",
    ),
}


def attacks(source: Source) -> Section:
    """The chart of the ten attacks and their mean."""
    files, audit = source.files, source.files.audit
    if not audit:
        raise Absent("not audited yet", audit_command(files))
    metrics, intervals, budget = (block(audit, key) for key in ("metrics", "intervals", "budget"))
    rows = [_row(key, wish, metrics[key], intervals.get(key)) for key, wish in WISHES.items() if key in metrics]
    score = finite(metrics.get("ERS"))
    if not rows or score is None:
        raise Absent("audit.json holds no score of the ten attacks", audit_command(files))
    ends = fmt.span(intervals.get("ERS"))
    content: dict[str, Any] = {
        "rows": rows,
        "score": fmt.number(score),
        "ends": f"({fmt.number(ends[0])}–{fmt.number(ends[1])})" if ends else "",
        "bar": meter(score, ends, "ERS, the mean of the ten", "bar"),
        "budget": _conditions(audit, budget),
        "recall": fmt.with_interval(metrics.get("R@1"), intervals.get("R@1")),
        "doubt": (doubt := _doubt(files)),
    }
    verdict = "" if doubt else f": {_verdict(score)}"
    return Section(f"Ten attacks leave {fmt.number(score)} of 100 standing{verdict}", content)


def _doubt(files: RunFolder) -> str:
    """Why the score deserves no verdict; empty where it does."""
    metrics, budget = block(files.audit, "metrics"), block(files.audit, "budget")
    if metrics.get("collapsed") is True:
        return "The embedding has collapsed, so a high score means nothing here."
    if any(flag["level"] == "error" for flag in flags_of([files.audit])):
        return "The audit warns not to trust its figures (see Reliability), so this score is no verdict."
    eps, steps = finite(budget.get("eps_pixel")), finite(budget.get("steps"))
    usual = usual_eps(files)
    if eps is None or steps is None:
        return "The strength of these attacks is not recorded, so this score is no verdict."
    if eps < usual * (1 - TINY) or steps < USUAL_STEPS:
        return (
            f"These attacks are weaker than those that the score is defined with ({fmt.eps(usual)} per pixel, "
            f"{USUAL_STEPS} steps), so this score is no verdict and cannot be compared with others."
        )
    return ""


def _verdict(score: float) -> str:
    """The score in a word; by the docs, undefended models score below 10 and adversarially trained ones 20 to 61."""
    if score < 10:
        return "attackers get nearly everything they want"
    if score < 20:
        return "attackers get most of what they want"
    if score < 40:
        return "it resists in part"
    return "it resists well"


def _row(key: str, wish: Wish, value: Any, interval: Any) -> dict[str, Any]:
    known = finite(value)
    if known is None:
        return {
            "key": key,
            "wish": wish.text,
            "score": fmt.NONE,
            "ends": "",
            "bar": Markup(""),
            "outcome": "could not be measured",
        }
    ends = fmt.span(interval)
    score, *scaled = [TERMS[key](number) for number in (known, *(ends or ()))]
    span = (min(scaled), max(scaled)) if scaled else None
    return {
        "key": key,
        "wish": wish.text,
        "score": fmt.number(score),
        "ends": f"({fmt.number(span[0])}–{fmt.number(span[1])})" if span else "",
        "bar": meter(score, span, f"{wish.text}: withstood", "bar"),
        "outcome": wish.outcome.format(fmt.number(known, wish.digits)),
    }


def _conditions(audit: dict[str, Any], budget: dict[str, Any]) -> str:
    images, gallery = fmt.count(audit.get("images")), fmt.count(audit.get("gallery"))
    some = "a class-balanced sample of " if audit.get("limit") else ""
    method = " by random search" if budget.get("method") == "square" else ""
    return (
        f"Each attack changes {some}{images} pictures by at most {fmt.eps(budget.get('eps_pixel'))} per pixel in "
        f"{budget.get('steps')} steps{method}; {gallery} unchanged pictures are searched."
    )
