"""HM: what η, source, destination and intra-class structure do (H3), and its rivals EST and ACT at equal η (H4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast_studies.base import Plan, paper, study
from holdfast_studies.catalogue import hardness_arms as arms_of
from holdfast_studies.catalogue.hardness_arms import (
    AS_GOOD,
    ERS,
    ERS_NOISE,
    FIXED,
    GAMMA,
    PUBLISHED,
    PUBLISHED_ERS,
    STEPS,
    act,
    by_protocol,
    hm,
    more_ers,
    more_r1,
    named,
    scores,
    standing,
)
from holdfast_studies.claims import All, Claim, Judged, gaps, joint
from holdfast_studies.drawing import Bars, Lines, Scatter
from holdfast_studies.jobs import Scale, Training
from holdfast_studies.results import NOT_RUN, Results, Status, interval

ETAS: dict[Scale, tuple[int, ...]] = {"pocket": (1, 2, 4, 8), "paper": (2, 4, 8, 16, 32)}
HALF = "HM[S, -γ/2]"
ICS = {"ics": 0.5}
STRUCTURED: dict[str, tuple[str, str, float, float]] = {
    "HM[R, M]": ("R", "M", 39.0, 35.1),
    "HM[S, M]": ("S", "M", 32.3, 29.6),
    "HM[R, LGA]": ("R", "lga", 40.2, 37.3),
    "HM[S, LGA]": ("S", "lga", 33.5, 32.4),
}
"""Table 5: source, destination, ERS with and without intra-class structure."""


def _at(name: str, eta: int) -> str:
    return f"{name}, η {eta}"


def _varied(scale: Scale) -> dict[str, Callable[[int], Training]]:
    """Methods whose η the paper varies."""
    makers: dict[str, Callable[[int], Training]] = {
        "HM[S, LGA]": lambda eta: hm(scale, steps=eta),
        "HM[S, LGA]&ICS": lambda eta: hm(scale, steps=eta, regime=ICS),
        "HM[S, M]": lambda eta: hm(scale, "S", "M", steps=eta),
        "HM[R, M]": lambda eta: hm(scale, "R", "M", steps=eta),
        HALF: lambda eta: hm(scale, "S", -GAMMA / 2, steps=eta),
    }
    if scale == "paper":
        makers["ACT[R]"] = lambda eta: act(scale, "R", steps=eta)
        makers["ACT[S]"] = lambda eta: act(scale, "S", steps=eta)
    return makers


@study("H3")
def steps_and_parts(scale: Scale) -> Plan:
    """Steps of the adversary, and the parts of HM one by one."""
    usual, etas, makers = STEPS[scale], ETAS[scale], _varied(scale)
    jobs = {_at(name, usual): make(usual) for name, make in makers.items()}
    if scale == "paper":
        jobs[_at("HM[S, -γ]", usual)] = hm(scale, "S", -GAMMA)
        jobs[_at("HM[R, LGA]", usual)] = hm(scale, "R", "lga")
        for name, (source, destination, *_) in STRUCTURED.items():
            jobs[_at(f"{name}&ICS", usual)] = hm(scale, source, destination, regime=ICS)
    swept = makers if scale == "paper" else {"HM[S, LGA]": makers["HM[S, LGA]"]}
    for eta in etas:
        jobs |= {_at(name, eta): make(eta) for name, make in swept.items() if eta != usual}
    lga, ics, semihard, half = (_at(name, usual) for name in ("HM[S, LGA]", "HM[S, LGA]&ICS", "HM[S, M]", HALF))
    rising = tuple(_at("HM[S, LGA]", eta) for eta in reversed(etas) if eta <= usual)
    lines = {name: {float(eta): _at(name, eta) for eta in etas} for name in swept}
    return Plan(
        named(jobs),
        [
            *by_protocol(
                scale,
                lambda figure: more_ers("ERS grows with η up to the radius", *rising, figure=figure),
                lambda figure: _levels_off(usual, figure),
            ),
            more_r1("the source S keeps more R@1 than R", semihard, _at("HM[R, M]", usual)),
            more_r1("LGA keeps more R@1 than the constant -γ/2", lga, half),
            *by_protocol(
                scale,
                lambda figure: All(
                    f"LGA reaches more ERS than M and keeps its R@1 within {AS_GOOD:g} points",
                    (more_ers("ERS", lga, semihard, figure=figure), more_r1("R@1", lga, semihard, least=-AS_GOOD)),
                ),
                lambda figure: more_ers("ICS adds ERS", ics, lga, figure=figure),
            ),
            *(_of_the_tables(scale) if scale == "paper" else []),
        ],
        [
            Lines("ERS over η", lines, ERS, x="η", logarithmic=True),
            Lines("R@1 over η", lines, "R@1", x="η", logarithmic=True),
            Scatter("Robustness against retrieval", tuple(jobs), "R@1", ERS),
        ],
        {"R@1": "R@1", **scores(scale), "passes per step": "log/passes"},
    )


def _of_the_tables(scale: Scale) -> list[Claim]:
    """What only the whole of Tables 3 to 5 can show."""
    usual, etas = STEPS[scale], ETAS[scale]
    halves = tuple(_at(HALF, eta) for eta in reversed(etas) if eta <= usual)
    random, rival = _at("HM[R, M]", usual), _at("ACT[R]", usual)

    def sources(figure: str) -> Claim:
        pairs = {f"η {eta}": (_at("HM[R, M]", eta), _at("HM[S, M]", eta)) for eta in etas}
        parts = tuple(more_ers(text, *arms, figure=figure) for text, arms in pairs.items())
        return All("at every η, HM[R, M] reaches more ERS than HM[S, M]", parts)

    def structure(figure: str) -> Claim:
        parts = tuple(
            more_ers(name, _at(f"{name}&ICS", usual), _at(name, usual), figure=figure, printed=gaps(printed))
            for name, (_, _, *printed) in STRUCTURED.items()
        )
        return All("ICS adds ERS to HM[R, M], HM[S, M], HM[R, LGA] and HM[S, LGA]", parts)

    return [
        *by_protocol(
            scale,
            lambda figure: more_ers("of HM[S, -γ/2] too, ERS grows with η", *halves, figure=figure),
            sources,
            lambda figure: more_ers(
                "HM[R, M] reaches more ERS than ACT[R]", random, rival, figure=figure, printed=(3.8,)
            ),
            structure,
        ),
        more_r1("HM[R, M] keeps less R@1 than ACT[R]", rival, random, printed=(3.6,)),
    ]


def _levels_off(usual: int, figure: str) -> Claim:
    """The gain of the doubling up to the usual η against that of the next, which must not be a loss."""
    arms = [_at("HM[S, LGA]", eta) for eta in (usual // 2, usual, 2 * usual)]

    def rule(results: Results) -> tuple[Status, str]:
        below, at, above = (results.by_seed(arm, figure) for arm in arms)
        seeds = sorted(below.keys() & at.keys() & above.keys())
        bend = interval([2 * at[seed] - below[seed] - above[seed] for seed in seeds], 2 * ERS_NOISE)
        gain = interval([above[seed] - at[seed] for seed in seeds], ERS_NOISE)
        if bend is None or gain is None:
            return "undecided", NOT_RUN
        evidence = f"{figure}: gain to η {usual} less gain to η {2 * usual}: {bend}; gain to η {2 * usual}: {gain}"
        return joint([bend.status(), gain.status(-ERS_NOISE)]), evidence

    text = (
        f"ERS levels off: from η {usual} to {2 * usual} it gains less than from {usual // 2} to {usual}, and does not "
        f"fall by {ERS_NOISE:g} or more"
    )
    return standing(Judged(text, rule), arms, favoured=arms)


OURS, RIVALS = ("HM[S, LGA]", "HM[S, LGA]&ICS"), ("EST[R]", "ACT[R]")
UNDEFENDED: dict[Scale, str] = {"pocket": "standard", "paper": "standard[R]"}
"""Training without a defence: of softhard triplets at pocket scale, of random ones in the paper's table."""
PROTOCOLS = {"fixed": ERS, "published": PUBLISHED_ERS}
BOTH = (FIXED, PUBLISHED)
FURTHER = {"cars": 0.5, "sop": 0.05}
"""Datasets beyond the scale's own, and their weight of the intra-class structure term."""
PRINTED_ERS: dict[str, dict[str, float]] = paper("hardness")["H4"]["printed"]
"""Suffix of arms → ERS in the paper's table on that dataset."""
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
