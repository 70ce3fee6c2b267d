"""H4: HM against EST and ACT at equal η."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue import hardness_arms as arms_of
from holdfast_studies.catalogue.hardness_arms import ERS, FIXED, PUBLISHED, PUBLISHED_ERS, STEPS, hm, named
from holdfast_studies.catalogue.hardness_claims import by_protocol, more_ers, more_r1
from holdfast_studies.claims import All, Claim, gaps
from holdfast_studies.drawing import Bars, Scatter
from holdfast_studies.jobs import Scale, Training

OURS, RIVALS = ("HM[S, LGA]", "HM[S, LGA]&ICS"), ("EST[R]", "ACT[R]")
UNDEFENDED: dict[Scale, str] = {"pocket": "standard", "paper": "standard[R]"}
"""Training without a defence: of softhard triplets at pocket scale, of random ones in the paper's table."""
PROTOCOLS = {"fixed": ERS, "published": PUBLISHED_ERS}
BOTH = (FIXED, PUBLISHED)
FURTHER = {"cars": 0.5, "sop": 0.05}
"""Datasets beyond the scale's own, and their weight of the intra-class structure term."""
PRINTED_ERS: dict[str, dict[str, float]] = {
    "": {"EST[R]": 7.9, "ACT[R]": 31.3, "HM[S, LGA]": 32.4, "HM[S, LGA]&ICS": 33.5},
    ", cars": {"EST[R]": 4.4, "ACT[R]": 39.8, "HM[S, LGA]": 42.4, "HM[S, LGA]&ICS": 47.9},
    ", sop": {"EST[R]": 19.0, "ACT[R]": 49.5, "HM[S, LGA]": 61.7, "HM[S, LGA]&ICS": 61.2},
}
"""Suffix of arms → the paper's table on that dataset."""
TWICE = (0, 1)
"""Seeds of the arms that the table is about."""
TUNED = "HM[S, LGA]&ICS, tuned"


def _undefended(scale: Scale, data: str | None = None) -> Training:
    """Random triplets without an adversary."""
    return arms_of.trained(scale, "resnet18-triplet-random", {}, data=data, measures=BOTH)


def _methods(scale: Scale, weight: float = 0.5, **more: Any) -> dict[str, Training]:
    """The table's four defences."""
    return {
        "EST[R]": arms_of.est(scale, measures=BOTH, **more),
        "ACT[R]": arms_of.act(scale, "R", measures=BOTH, **more),
        "HM[S, LGA]": hm(scale, measures=BOTH, **more),
        "HM[S, LGA]&ICS": hm(scale, regime={"ics": weight}, measures=BOTH, **more),
    }


@study("H4")
def rivals(scale: Scale) -> Plan:
    """HM against EST and ACT at equal η."""
    pocket, standard, defences = scale == "pocket", UNDEFENDED[scale], _methods(scale)
    others = {"HM[S, M]": hm(scale, "S", "M", measures=BOTH)}
    same_source = {"ACT[S]": arms_of.act(scale, "S", measures=BOTH)}
    if pocket:
        arms = named({standard: arms_of.standard(scale, measures=BOTH), **defences, **others, **same_source})
        claims = _on("", "on the same data")
    else:  # the table's own rows; then what explains them, other data, the strong η, another backbone
        arms = named({standard: _undefended(scale)})
        arms += named({name: defences.pop(name) for name in ("ACT[R]", *OURS)}, TWICE)
        further = {**defences, **others}
        for data, weight in FURTHER.items():
            on_it = {standard: _undefended(scale, data), **_methods(scale, weight, data=data)}
            further |= {f"{name}, {data}": job for name, job in on_it.items()}
        further |= {f"{name}, η 32": job for name, job in _methods(scale, steps=32).items()} | same_source
        further["standard[S]"] = arms_of.standard(scale, measures=BOTH)
        frozen = {"model.batchnorm": "freeze-statistics"}
        further["EST[R], BatchNorm frozen"] = arms_of.est(scale, measures=BOTH, over=frozen)
        further[TUNED] = Training("hm-lga-ics-tuned", "cub", settings={"evaluate_every": 50}, measures=BOTH)
        arms += named(further)
        claims = [
            *_on("", "on CUB", PRINTED_ERS[""]),
            *_on(", cars", "on CARS", PRINTED_ERS[", cars"]),
            *_on(", sop", "on SOP", PRINTED_ERS[", sop"], retrieval=False),
        ]
    same = f"from the same source S, HM[S, M] reaches more ERS than ACT[S] at η {STEPS[scale]}"
    claims += by_protocol(scale, lambda figure: more_ers(same, "HM[S, M]", "ACT[S]", figure=figure))
    drawn = (standard, *RIVALS, "ACT[S]", "HM[S, M]", *OURS)
    return Plan(
        arms,
        claims,
        [
            Scatter("Robustness against retrieval", drawn, "R@1", ERS),
            Bars("Two protocols", drawn, {f"ERS, {name}": figure for name, figure in PROTOCOLS.items()}),
        ],
        {
            "R@1": "R@1",
            "NMI": "NMI",
            "ERS": ERS,
            "ERS as published": PUBLISHED_ERS,
            "ES:R": "ers-fixed/ES:R",
            "TMA": "ers-fixed/TMA",
            "passes per step": "log/passes",
        },
    )


def _on(suffix: str, where: str, printed: Mapping[str, float] | None = None, retrieval: bool = True) -> list[Claim]:
    """Claims about one dataset."""
    pairs = [(ours, rival) for ours in OURS for rival in RIVALS]
    apart = {pair: gaps([printed[name] for name in pair]) if printed else () for pair in pairs}
    arms = {pair: (pair[0] + suffix, pair[1] + suffix) for pair in pairs}
    claims: list[Claim] = [
        All(
            f"HM[S, LGA], with and without ICS, reaches more ERS ({name} protocol) than EST and ACT {where}",
            tuple(more_ers(" > ".join(arms[p]), *arms[p], figure=figure, printed=apart[p]) for p in pairs),
        )
        for name, figure in PROTOCOLS.items()
    ]
    if retrieval:
        text = f"HM[S, LGA], with and without ICS, keeps more R@1 than EST and ACT {where}"
        claims.append(All(text, tuple(more_r1(" > ".join(arms[p]), *arms[p]) for p in pairs)))
    return claims
