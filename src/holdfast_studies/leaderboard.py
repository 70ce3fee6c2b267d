"""The leaderboard: one record per model, a form that others can submit, and the table made of it."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.audit import ers_score
from holdfast.audit.ers import TERMS
from holdfast.robustness import NATURAL, ROBUST
from holdfast.run_files import finite
from holdfast.version import __version__
from holdfast_studies.base import Study
from holdfast_studies.jobs import Arm, AuditMeasure, Scale, Training
from holdfast_studies.results import Outcome, Results
from holdfast_studies.tables import SECONDS, duration, inert, inert_table, markdown, on_one_device

SCHEMA = 1
OURS = "holdfast studies"
"""Who submitted the records that studies make; they are replaced whenever the pages are."""

STUDIES = ("H4", "X1", "X2", "X3", "X5")
"""Whose arms are listed, where they were audited with ERS on all test classes."""

CLEAN = ("R@1", "NMI", "mAP@R")
EPS, USUAL = 8 / 255, "8/255"
"""Of robust R@1, where the table does not say otherwise."""
ROUNDING = 0.1
"""ERS may differ by so much from the score of its own ten figures."""


def validate(record: Any) -> list[str]:
    """Everything that is wrong with a record; an empty list if nothing is."""
    if not isinstance(record, dict):
        return ["a record is a JSON object"]
    problems = [f"{key}: missing" for key in FIELDS if key not in record and key not in SINCE_THEN]
    problems += [f"{key}: unknown key" for key in record if key not in FIELDS]
    for key, check in FIELDS.items():
        if key in record and (problem := check(record[key])):
            problems.append(f"{key}: {problem}")
    return problems


def from_results(study: Study, scale: Scale, results: Results) -> list[dict[str, Any]]:
    """The records of a study: its trained arms with ERS of the fixed protocol, averaged over the seeds that have it."""
    trained = [(arm, arm.job) for arm in study.arms(scale) if isinstance(arm.job, Training)]
    found = [_record(study, arm, job, results.outcomes.get(arm.name, [])) for arm, job in trained]
    return [record for record in found if record is not None]


def joined(records: Iterable[Mapping[str, Any]], ours: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The file again: what others submitted is kept, ours is replaced, the same training is listed once."""
    known: dict[Any, Mapping[str, Any]] = {}
    for record in [*(r for r in records if r.get("submitted_by") != OURS), *ours]:
        known.setdefault((record["recipe_digest"], record["submitted_by"]), record)
    return sorted(known.values(), key=lambda r: (r["data"], *_place(r), r["name"]))


def _place(record: Mapping[str, Any]) -> tuple[float, float]:
    """The most robust first: by robust R@1, those without it last, then by ERS."""
    robust = record.get("robust")
    return -robust["R@1"] if robust else 1.0, -record["ers"]["fixed"]["ERS"]


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Models of one dataset, the most robust first; columns that no record fills are left out."""
    rows = []
    for r in records:
        published, natural = r["ers"]["published"], r.get("natural") or {}
        rows.append(
            {
                "model": r["name"],
                "backbone": r["backbone"],
                "R@1": _tenth(r["clean"].get("R@1")),
                ROBUST: _robust_words(r.get("robust")),
                "ERS": _tenth(r["ers"]["fixed"]["ERS"]),
                "ERS, published form": _tenth(published and published["ERS"]),
                "everyday R@1": _tenth(natural.get("R@1")),
                **{key: _tenth(r["clean"].get(key)) for key in CLEAN if key != "R@1"},
                "epochs": str(r["epochs"]),
                "seeds": str(len(r["seeds"])),
                "attacked": f"{r['ers']['limit']:,}" if r["ers"]["limit"] else "all",
                "passes": _tenth(r["cost"]["passes"]),
                "training": f"{duration(r['cost']['seconds'])}, {r['cost']['hardware']}",
                "recipe": r["recipe_digest"],
                "by": r["submitted_by"],
            }
        )
    headings = [key for key in rows[0] if any(row[key] != "-" for row in rows)]
    return markdown(inert_table((headings, [[row[key] for key in headings] for row in rows])))


def page_text(records: Sequence[Mapping[str, Any]]) -> str:
    """The page."""
    template = (Path(__file__).parent / "templates" / "leaderboard.md").read_text("utf-8")
    sections = [
        f"## {inert(data)}\n\n{table([*own])}" for data, own in itertools.groupby(records, key=lambda r: str(r["data"]))
    ]
    return template.replace("{table}", "\n\n".join(sections) or "No models yet.")


def _record(study: Study, arm: Arm, job: Training, ran: Sequence[Outcome]) -> dict[str, Any] | None:
    measures = [
        m for m in job.measures if isinstance(m, AuditMeasure) and m.protocol == "ers" and not (m.split or m.eps)
    ]
    audits = {measure.mode: measure for measure in measures}
    if "fixed" not in audits:
        return None
    outcomes = [o for o in ran if not o.stopped and o.known(f"{audits['fixed'].prefix}/ERS") is not None]
    scores = {mode: _scores(outcomes, audit.prefix) for mode, audit in audits.items()}
    if scores["fixed"] is None:
        return None
    timed = on_one_device([outcome for outcome in outcomes if outcome.known(SECONDS) is not None])
    plain = job.resolved(outcomes[0].seed).plain()
    thorough = next((m.prefix for m in job.measures if isinstance(m, AuditMeasure) and m.protocol == "thorough"), "")
    under_attack = [
        _mean(outcomes, key) for key in (f"{thorough}/eps={USUAL} R@1", f"{audits['fixed'].prefix}/{ROBUST}")
    ]
    robust = next((value for value in under_attack if value is not None), None)
    everyday = _mean(outcomes, f"natural-fixed/{NATURAL}")
    return {
        "schema": SCHEMA,
        "name": f"{arm.name} ({study.id})",
        "method": plain["regime"]["name"],
        "data": plain["data"]["name"],
        "backbone": plain["model"]["backbone"],
        "weights": plain["model"]["weights"],
        "dim": plain["model"]["dim"],
        "epochs": plain["epochs"],
        "seeds": [outcome.seed for outcome in outcomes],
        "clean": {key: found for key in CLEAN if (found := _mean(outcomes, key)) is not None},
        "ers": {"fixed": scores["fixed"], "published": scores.get("published"), "limit": audits["fixed"].limit},
        "robust": None if robust is None else {"R@1": robust, "eps": EPS, "norm": "linf"},
        "natural": None if everyday is None else {"R@1": everyday},
        "cost": {
            "passes": _mean(outcomes, "log/passes"),
            "seconds": _mean(timed, SECONDS),
            "hardware": (timed or outcomes)[0].device,
        },
        "recipe_digest": job.resolved(outcomes[0].seed).digest(),
        "holdfast": str(outcomes[0].place.get("versions", {}).get("holdfast", __version__)),
        "submitted_by": OURS,
    }


def _scores(outcomes: Sequence[Outcome], prefix: str) -> dict[str, float] | None:
    found = {key: _mean(outcomes, f"{prefix}/{key}") for key in (*TERMS, "ERS")}
    known = {key: value for key, value in found.items() if value is not None}
    return known if len(known) == len(found) else None


def _mean(outcomes: Sequence[Outcome], figure: str) -> float | None:
    """Over all of them; None where one lacks it, because a record names the seeds of all its figures once."""
    values = [value for outcome in outcomes if (value := outcome.known(figure)) is not None]
    return float(f"{statistics.fmean(values):.5g}") if values and len(values) == len(outcomes) else None


def _tenth(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _robust_words(robust: Mapping[str, Any] | None) -> str:
    """Robust R@1, with its strength where that is not the usual."""
    if robust is None:
        return "-"
    eps = f"{255 * robust['eps']:.3g}/255" if robust["norm"] == "linf" else f"{robust['norm']} {robust['eps']:.3g}"
    return _tenth(robust["R@1"]) + ("" if eps == USUAL else f" ({eps})")


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() and "\n" not in value else "expected one line of text"


def _whole(value: Any) -> str | None:
    return None if type(value) is int and value > 0 else "expected a whole number of 1 or more"


def _optional(check: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
    return lambda value: None if value is None else check(value)


def _seeds(value: Any) -> str | None:
    listed = isinstance(value, list) and value and all(type(seed) is int for seed in value)
    return None if listed and len(set(value)) == len(value) else "expected a list of different whole numbers"


def _clean(value: Any) -> str | None:
    if not isinstance(value, dict) or "R@1" not in value:
        return "expected an object with R@1"
    return _outside(dict.fromkeys(value, (0, 100)), value)


def _ers(value: Any) -> str | None:
    if not isinstance(value, dict) or set(value) != {"fixed", "published", "limit"}:
        return "expected fixed, published and limit (null where there is none)"
    for mode in ("fixed", "published"):
        if (mode == "fixed" or value[mode] is not None) and (problem := _terms(value[mode])):
            return f"{mode}: {problem}"
    problem = _optional(_whole)(value["limit"])
    return f"limit: {problem}" if problem else None


def _terms(value: Any) -> str | None:
    if not isinstance(value, dict) or set(value) != {*TERMS, "ERS"}:
        return f"expected exactly {', '.join(TERMS)} and ERS"
    ranges: dict[str, tuple[float, float]] = dict.fromkeys(value, (0, 100))
    if problem := _outside({**ranges, "TMA": (-1, 1), "ES:D": (0, 2)}, value):
        return problem
    score = ers_score({key: float(value[key]) for key in TERMS})
    return None if abs(score - value["ERS"]) <= ROUNDING else f"ERS is {value['ERS']}, its ten figures make {score:.2f}"


def _robust(value: Any) -> str | None:
    if not isinstance(value, dict) or set(value) != {"R@1", "eps", "norm"} or value["norm"] not in ("linf", "l2"):
        return "expected R@1, eps and norm (linf or l2)"
    return _outside({"R@1": (0, 100), "eps": (0, 1e3)}, value)


def _natural(value: Any) -> str | None:
    return _outside({"R@1": (0, 100)}, value) if isinstance(value, dict) and set(value) == {"R@1"} else "expected R@1"


def _cost(value: Any) -> str | None:
    if not isinstance(value, dict) or set(value) != {"passes", "seconds", "hardware"}:
        return "expected passes, seconds and hardware"
    limits = {"passes": (1.0, 1e6), "seconds": (0.0, 1e9)}
    return _outside(limits, value) or _text(value["hardware"])


def _outside(limits: Mapping[str, tuple[float, float]], values: Mapping[str, Any]) -> str | None:
    for key, (least, most) in limits.items():
        number = finite(values[key])
        if number is None or not least <= number <= most:
            return f"{key} must be a number from {least:g} to {most:g}, got {values[key]!r}"
    return None


FIELDS: dict[str, Callable[[Any], str | None]] = {
    "schema": lambda value: None if value == SCHEMA else f"expected {SCHEMA}",
    **dict.fromkeys(("name", "method", "data", "backbone"), _text),
    "weights": _optional(_text),
    "dim": _optional(_whole),
    "epochs": _whole,
    "seeds": _seeds,
    "clean": _clean,
    "ers": _ers,
    "robust": _optional(_robust),
    "natural": _optional(_natural),
    "cost": _cost,
    **dict.fromkeys(("recipe_digest", "holdfast", "submitted_by"), _text),
}
"""What a record holds, each with what is wrong with a value (None if nothing)."""
SINCE_THEN = ("robust", "natural")
"""What records of before do not have."""
