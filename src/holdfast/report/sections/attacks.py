"""The ten ranking attacks: what each wanted, and how often it worked."""

from __future__ import annotations

from typing import Any

from holdfast.audit.ers import SCORES, SMALL_IMAGES, STEPS, usual_eps
from holdfast.report import formatting as fmt
from holdfast.report.context import Absent, PageContext, Section
from holdfast.report.public import model_command
from holdfast.robustness import doubts, robustness
from holdfast.run_files import block, finite
from holdfast.run_folder import RunFiles

TINY = 1e-6
SMALL_DATA = ("mnist",)
"""Datasets whose images are small by nature."""
FELL = "The {} image fell from the top to place {{}} of 100."
LISTED = "On average the {} image ended {{}} % down the list, where 0 % is the top; without an attack, 50 %."
STILL = "{{}} % of the {} still find their class first."

WISHES: dict[str, tuple[str, str]] = {
    "CA+": ("Push an image up in a stranger's search", LISTED.format("changed")),
    "CA-": ("Push an image out of a search it belongs to", FELL.format("changed")),
    "QA+": ("Change a query so that a chosen image comes up", LISTED.format("chosen")),
    "QA-": ("Change a query so that a fitting image disappears", FELL.format("fitting")),
    "TMA": (
        "Make a query pass for a chosen other image",
        "Their likeness (cosine) reached {}; 1 would be the same image, 0 nothing in common.",
    ),
    "ES:D": ("Move an image as far away as possible", "The embedding moved by {} of at most 2."),
    "ES:R": ("Move a query away, then search with it", STILL.format("adversarial queries")),
    "LTM": ("Pull images of other classes near the query", STILL.format("queries")),
    "GTM": ("Pull the nearest wrong image nearer still", STILL.format("queries")),
    "GTT": (
        "Push the best match out of the first four",
        "{} % of the queries keep their best match among the first four.",
    ),
}
"""What an attacker wants, and what happened, with `{}` for the measured figure."""


def show(context: PageContext) -> dict[str, Any]:
    """The chart of the ten attacks and their mean."""
    files, audit = context.files, context.files.audit
    if not audit:
        raise Absent("not audited yet", model_command("audit", files))
    metrics, intervals = block(audit, "metrics"), block(audit, "intervals")
    rows = [_row(key, *wish, metrics[key], intervals.get(key)) for key, wish in WISHES.items() if key in metrics]
    score = finite(metrics.get("ERS"))
    if not rows or score is None:
        raise Absent("audit.json holds no score of the ten attacks", model_command("audit", files))
    doubt, worst = _doubt(files), robustness(audit)
    verdict = f" on average, the worst {fmt.percent(worst.robust)} of the searches" if worst else f": {_verdict(score)}"
    return {
        "title": f"Ten attacks leave {fmt.number(score)} of 100 standing{'' if doubt else verdict}",
        "audit": audit,
        "budget": block(audit, "budget"),
        "rows": rows,
        "score": score,
        "interval": fmt.span(intervals.get("ERS")),
        "recall": fmt.with_interval(metrics.get("R@1"), intervals.get("R@1")),
        "doubt": doubt,
    }


def ers_terms(audit: dict[str, Any]) -> dict[str, float]:
    """What each attack leaves standing, of 100: the terms that ERS is the mean of; nothing unless all ten are known."""
    known = {key: finite(block(audit, "metrics").get(key)) for key in SCORES}
    terms = {key: float(SCORES[key].term(value)) for key, value in known.items() if value is not None}
    return terms if len(terms) == len(SCORES) else {}


def _doubt(files: RunFiles) -> str:
    """Why the score deserves no verdict; empty where it does."""
    metrics, budget = block(files.audit, "metrics"), block(files.audit, "budget")
    if metrics.get("collapsed") is True:
        return "The embedding has collapsed, so a high score means nothing here."
    if doubts(files.audit):
        return "The audit warns not to trust its figures (see Reliability), so this score is no verdict."
    eps, steps = finite(budget.get("eps_pixel")), finite(budget.get("steps"))
    if eps is None or steps is None:
        return "The strength of these attacks is not recorded, so this score is no verdict."
    usual = usual_eps_of(files)
    if eps < usual * (1 - TINY) or steps < STEPS:
        return (
            f"These attacks are weaker than those that the score is defined with ({fmt.eps(usual)} per pixel, "
            f"{STEPS} steps), so this score is no verdict and cannot be compared with others."
        )
    return ""


def usual_eps_of(files: RunFiles) -> float:
    """The eps of ERS for images of the size of this run's, as far as its files tell the size."""
    data, model = files.data, block(files.recipe, "model")
    native = SMALL_IMAGES if data.get("name") in SMALL_DATA else data.get("size")
    size: Any = model.get("canvas") or model.get("size") or native
    return usual_eps(size)


def _verdict(score: float) -> str:
    """The score in a word; by the docs, undefended models score 8 to 16 and adversarially trained ones 20 to 61."""
    if score < 10:
        return "attackers get nearly everything they want"
    if score < 20:
        return "attackers get most of what they want"
    return "it resists in part" if score < 40 else "it resists well"


def _row(key: str, wish: str, outcome: str, value: Any, interval: Any) -> dict[str, Any]:
    known, row = finite(value), {"key": key, "wish": wish}
    if known is None:
        return {**row, "score": None, "interval": None, "outcome": "could not be measured"}
    score, *ends = [SCORES[key].term(number) for number in (known, *(fmt.span(interval) or ()))]
    outcome = outcome.format(fmt.number(known, min(2, SCORES[key].digits)))
    return {**row, "score": score, "interval": (min(ends), max(ends)) if ends else None, "outcome": outcome}


SECTION = Section("attacks", "Ten attacks", show)
