"""What the search chose, on test classes, against hardness manipulation for as many passes (X5)."""

from __future__ import annotations

from typing import Any

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue.adml_arms import SEVERAL
from holdfast_studies.catalogue.hardness_arms import ERS, more_ers, noise
from holdfast_studies.catalogue.prices import ABOUT_EQUAL, Price, priced
from holdfast_studies.claims import All, Beyond, Claim, Ordered
from holdfast_studies.declared import at_scale, paper
from holdfast_studies.jobs import Arm, AuditMeasure, Measure, Scale, Training

HM = "HM[S, LGA]&ICS"
STRENGTHS = (2, 4, 8)
"""Of the worst case, in 255ths."""


@study("X5")
def finals(scale: Scale) -> Plan:
    """The recipes that the search chose, on test classes, against HM for as many passes."""
    own = paper("search")
    text: dict[str, Any] = at_scale(own["finals"], scale, own["words"])
    measures = _measures(text)
    seeds = SEVERAL if scale == "paper" else None

    def training(recipe: str, data: str, settings: dict[str, Any]) -> Training:
        return Training(recipe, data, settings=settings, measures=measures)

    arms, claims = [], []
    for data, pair in text["data"].items():
        where = f" on {data}" if data != text["chosen_on"] else ""
        jobs = {f"{name}{where}": training(name, data, settings) for name, settings in pair["recipes"].items()}
        length = {"epochs": pair["epochs"], "evaluate_every": pair["epochs"]}
        jobs[f"{HM}{where}"] = training(text["hm"]["recipe"], data, {**text["hm"]["settings"], **length})
        arms += [Arm(name, job, (0,) if where else seeds) for name, job in jobs.items()]
        others = [name for name in jobs if name != f"{HM}{where}"]
        claims += [claim for name in others for claim in _beats(name, f"{HM}{where}", jobs, scale)]
    if bar := text.get("bar"):
        claims.insert(0, _reaches(text["chosen"], scale, **bar))
    return Plan(arms, claims)


def _measures(text: dict[str, Any]) -> tuple[Measure, ...]:
    """ERS in both modes, and the worst case at several strengths."""
    fixed, published = AuditMeasure(limit=text["audited"]), AuditMeasure(mode="published", limit=text["audited"])
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
