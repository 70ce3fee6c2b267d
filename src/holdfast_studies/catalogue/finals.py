"""Against hardness manipulation for as many passes, on test classes: what the search chose (X5), other regimes (X3)."""

from __future__ import annotations

import dataclasses
from typing import Any

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue.adml_arms import SEVERAL
from holdfast_studies.catalogue.hardness_arms import ERS, more_ers, noise
from holdfast_studies.catalogue.prices import ABOUT_EQUAL, Price, priced
from holdfast_studies.catalogue.search import search_text
from holdfast_studies.claims import All, Beyond, Claim, Ordered
from holdfast_studies.jobs import Arm, AuditMeasure, Measure, Scale, Training

HM, ACT = "HM[S, LGA]&ICS", "ACT[R]"
STRENGTHS = (2, 4, 8)
"""Of the worst case, in 255ths."""


@study("X5")
def finals(scale: Scale) -> Plan:
    """The recipes that the search chose, on test classes, against HM for as many passes."""
    text = search_text(scale, "finals")
    arms, claims = [], []
    for data in text["data"]:
        where = f" on {data}" if data != text["chosen_on"] else ""
        jobs = {f"{name}{where}": job for name, job in _tested(text, data).items()}
        arms += [Arm(name, job, (0,) if where else _seeds(scale)) for name, job in jobs.items()]
        ours = [name for name in jobs if name != f"{HM}{where}"]
        claims += [claim for name in ours for claim in _beats(name, f"{HM}{where}", jobs, scale)]
    if bar := text.get("bar"):
        claims.insert(0, _reaches(text["chosen"], scale, **bar))
    return Plan(arms, claims)


@study("X3")
def others(scale: Scale) -> Plan:
    """CA-TRIDE, ACT, and ours, against hardness manipulation at equal passes."""
    text = search_text(scale, "finals")
    jobs = _tested(text, text["chosen_on"])
    hm = jobs[HM]
    for name, other in text["others"].items():
        settings = {"regime": other["regime"], **for_epochs(other["epochs"]), "on_collapse": "warn"}
        jobs[name] = dataclasses.replace(hm, settings={**hm.settings, **settings})
    seeds = {name: tuple(other["seeds"]) for name, other in text["others"].items() if "seeds" in other}
    shown = [HM, text["chosen"], *text["others"]]
    claims = [claim for name in text["others"] if name != ACT for claim in _beats(name, HM, jobs, scale)]
    return Plan([Arm(name, jobs[name], seeds.get(name, _seeds(scale))) for name in shown], claims)


def tested_against(scale: Scale) -> Training:
    """HM as X5 compares with it on the dataset that recipes were chosen on."""
    text = search_text(scale, "finals")
    return _tested(text, text["chosen_on"])[HM]


def _tested(text: dict[str, Any], data: str) -> dict[str, Training]:
    """The recipes of ours on a dataset, and HM for as many passes."""
    own, hm = text["data"][data], text["hm"]
    trained = {name: (name, settings) for name, settings in own["recipes"].items()}
    trained[HM] = (hm["recipe"], {**hm["settings"], **for_epochs(own["epochs"])})
    measures = _measures(text)
    return {name: Training(recipe, data, {}, settings, measures) for name, (recipe, settings) in trained.items()}


def for_epochs(epochs: int) -> dict[str, int]:
    """So many epochs, evaluated at their end."""
    return {"epochs": epochs, "evaluate_every": epochs}


def _seeds(scale: Scale) -> tuple[int, ...] | None:
    """Of arms on the dataset that recipes were chosen on."""
    return SEVERAL if scale == "paper" else None


def _measures(text: dict[str, Any]) -> tuple[Measure, ...]:
    """ERS in both modes, and the worst case at several strengths."""
    fixed = AuditMeasure(limit=text["audited"], checks=True)
    published = AuditMeasure(mode="published", limit=text["audited"])
    worst = AuditMeasure(protocol="thorough", limit=text["worst"], eps=f"{STRENGTHS[-1]}/255", name="worst")
    return fixed, published, worst


def _beats(name: str, hm: str, jobs: dict[str, Training], scale: Scale) -> list[Claim]:
    """More of everything than HM, for no more passes."""
    clean, robust = noise(scale)
    found: list[Claim] = [
        Ordered(f"{name} keeps more R@1 than HM for no more passes", (name, hm), noise=clean),
        more_ers(f"{name} reaches more ERS than HM for no more passes", (name, hm), noise=robust),
        All(
            f"{name} keeps more R@1 under the worst of many attacks than HM for no more passes, at 2, 4 and 8/255",
            tuple(
                Ordered(f"at {strength}/255", (name, hm), figure=f"worst/eps={strength}/255 R@1", noise=clean)
                for strength in STRENGTHS
            ),
        ),
    ]
    prices = Price.of(name, jobs[name]), Price.of(hm, jobs[hm])
    return [priced(claim, *prices, ABOUT_EQUAL) for claim in found]


def _reaches(name: str, scale: Scale, clean: float, ers: float) -> Claim:
    of_clean, of_ers = noise(scale)
    return All(
        f"{name} reaches R@1 {clean:g} and ERS {ers:g}",
        (
            Beyond("R@1", name, "R@1", above=clean, noise=of_clean),
            Beyond("ERS", name, ERS, above=ers, noise=of_ers),
        ),
    )
