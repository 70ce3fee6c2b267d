"""H3: what η, the source, the destination and intra-class structure do."""

from __future__ import annotations

from collections.abc import Callable

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue.hardness_arms import ERS, ERS_NOISE, GAMMA, STEPS, act, hm, named, scores
from holdfast_studies.catalogue.hardness_claims import AS_GOOD, by_protocol, more_ers, more_r1, standing
from holdfast_studies.claims import All, Claim, Judged, gaps, joint
from holdfast_studies.drawing import Lines, Scatter
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
                    (
                        more_ers("ERS", lga, semihard, figure=figure),
                        more_r1("R@1", lga, semihard, least=-AS_GOOD),
                    ),
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
