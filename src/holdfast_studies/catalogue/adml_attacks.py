"""ADML under attack: Tables 1, 4 and 5, Figure 3, and Table 1 in every make-up of batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue import adml_arms
from holdfast_studies.catalogue.adml_arms import (
    ATTACKED_NOISE,
    GOALS,
    LIMITS,
    NORMALISED,
    PIXELS,
    UNITS,
    USUAL,
    WEIGHTS,
)
from holdfast_studies.catalogue.rules import Lower, no_prediction
from holdfast_studies.claims import All, Judged, Ordered, Rule, gaps
from holdfast_studies.drawing import Bars, Lines
from holdfast_studies.jobs import Probe, Scale, called
from holdfast_studies.results import NOT_RUN, ONE_SEED, Results, Status

FAR = 5.0
"""Points of R@1 that count as far more; the paper's smallest gap is 15."""

ORDER_NOISE: dict[Scale, float] = {"pocket": ATTACKED_NOISE, "paper": 1.0}
"""Of the order in A3. On CUB less than a tenth of R@1 is left under these attacks, and 1.645 × the standard deviation
of a difference is 0.4 (standard training and +T, three seeds, the whole set replaced); doubled and rounded up for arms
with one seed."""

GLYPHS = (
    "Glyphs and a small network from scratch, 24 epochs, three attack steps in training, in the place of CUB and "
    "ImageNet ResNet-50, 100 epochs and seven steps. Attacks of the evaluation are the paper's."
)


@study("A1")
def attacks_on_trained(scale: Scale) -> Plan:
    """Alignment and uniformity attacks hurt a trained model far more than the triplet attack."""
    audits = adml_arms.attacks(scale)
    name, recipe = (None, None) if scale == "pocket" else ("Triplet-D", "resnet50-triplet")
    model = adml_arms.arm(scale, "standard", name, recipe=recipe, measures=tuple(audits.values()))

    def lower(goal: str, attacked: str) -> Lower:
        figures = (f"{attacked}/{goal}/R@1", f"{attacked}/triplet/R@1")
        return Lower(goal, model.name, *figures, noise=ATTACKED_NOISE, least=FAR)

    text = f"alignment and uniformity attacks lower R@1 by {FAR:g} points more than the triplet attack"
    goals = ("triplet", "alignment", "uniformity")
    columns = {"R@1": "R@1"} | {
        f"{goal}, {reading}": f"{audit.prefix}/{goal}/R@1" for reading, audit in audits.items() for goal in goals
    }
    return Plan(
        [model],
        [
            All(text, tuple(lower(goal, audit.prefix) for goal in goals[1:]), reading=reading)
            for reading, audit in audits.items()
        ],
        [Bars("R@1 of a trained model under attack", (model.name,), columns)],
        columns,
    )


ORDER = {"+A": 17.37, "+U": 15.10, "+T": 11.58, "standard": 8.90}
"""Kind → R@1 under the alignment attack, Table 4."""
GROWING = {"+A": (8.90, 19.15, 22.51, 24.47, 25.29, 25.93), "+U": (8.90, 16.21, 18.36, 20.23, 21.06, 21.55)}
"""Kind → R@1 with λ 0, 0.2, 0.4, 0.6, 0.8 and 1, Table 5."""
LEAST: dict[Scale, float] = {"pocket": 0.1, "paper": 0.2}
"""λ from which robustness should grow."""


@study("A3")
def robustness_grows(scale: Scale) -> Plan:
    """Under the alignment attack A > U > T > none, and robustness grows with λ."""
    audits, usual = adml_arms.attacks(scale), USUAL[scale]
    figures = {reading: f"{audit.prefix}/alignment/R@1" for reading, audit in audits.items()}
    units = {reading: next(unit for unit in UNITS if reading.startswith(unit)) for reading in audits}
    own, other = (tuple(a for said, a in audits.items() if (units[said] == usual) == same) for same in (True, False))
    main = [adml_arms.arm(scale, "standard", measures=tuple(audits.values()))]
    main += adml_arms.variants(scale, ("+T", "+U", "+A"), own)
    main += adml_arms.others(scale, ("+T", "+U", "+A"), other) if scale == "paper" else []
    weights = tuple(w for of_kind in WEIGHTS[scale].values() for w in of_kind if w >= LEAST[scale])
    known = {*called(main)}
    arms = main + [arm for arm in adml_arms.weighted(scale, weights, own[:1]) if arm.name not in known]
    lines = {
        kind: {w: name for w, name in adml_arms.series(scale, kind).items() if w == 0 or w >= LEAST[scale]}
        for kind in WEIGHTS[scale]
    }
    orders = [
        Ordered(
            "robustness to the alignment attack: +A > +U > +T > standard",
            tuple(kind if kind == "standard" else adml_arms.in_units(scale, kind, units[reading]) for kind in ORDER),
            figure,
            reading=reading,
            noise=ORDER_NOISE[scale],
            printed=gaps(tuple(ORDER.values())) if scale == "paper" else (),
        )
        for reading, figure in figures.items()
        if scale == "paper" or units[reading] == usual
    ]
    grows = [
        Ordered(
            f"robustness to the alignment attack grows with λ ({', '.join(f'{w:g}' for w in line)}) in {kind}",
            tuple(reversed(line.values())),
            figures[usual],
            reading=usual,
            noise=ORDER_NOISE[scale],
            printed=gaps(GROWING[kind][::-1]) if scale == "paper" else (),
        )
        for kind, line in lines.items()
    ]
    return Plan(
        arms,
        [*orders, *grows],
        [Lines("R@1 under the alignment attack against λ", lines, figures[usual], x="λ")],
        {"R@1": "R@1"} | {f"alignment, {reading}": figure for reading, figure in figures.items()},
    )


@study("A8")
def hardness_predicts_nothing(scale: Scale) -> Plan:
    """How hard an attack is does not predict the clean gain of training on it."""
    learnt = adml_arms.variants(scale)[1:] + adml_arms.others(scale)
    probes = {}
    for one in learnt:
        goal = dict(GOALS[one.name.split()[0]])
        units = {} if one.reading == PIXELS else {"units": UNITS[one.reading]}
        arguments = {"goal": goal.pop("name"), **goal, "limit": LIMITS[scale], **units}
        probes[one.name] = Probe("attack-strength", arguments, f"strength{one.name}")
    standard = adml_arms.arm(scale, "standard", measures=tuple(probes.values()))
    arms = [standard, *(dataclasses.replace(one, reading="") for one in learnt)]  # units are but a strength here
    drops = {name: f"{probe.prefix}/drop" for name, probe in probes.items()}
    return Plan(
        arms,
        [
            Judged(
                f"the hardness of an attack ({how}) does not predict the clean gain of training on it",
                no_prediction({name: f"{probe.prefix}/{key}" for name, probe in probes.items()}, "standard"),
            )
            for key, how in (("drop", "how far it lowers R@1"), ("shift", "how far it moves embeddings"))
        ],
        [
            Bars("Points of R@1 that each attack costs the standard model", ("standard",), drops),
            Bars("Clean R@1 after training on each attack", called(arms), {"R@1": "R@1"}),
        ],
        {"R@1": "R@1"} | {f"drop by {name}": figure for name, figure in drops.items()},
    )


MAKE_UPS = ("ordered", "28x4", "56x2", "shuffled")
SCRIPT: dict[tuple[str, str], dict[str, float]] = {
    ("ordered", PIXELS): {"alignment": 7.4, "uniformity": 92.0, "triplet": 19.3},
    ("28x4", PIXELS): {"alignment": 8.7, "uniformity": 8.0, "triplet": 20.0},
    ("56x2", PIXELS): {"alignment": 12.7, "uniformity": 5.7, "triplet": 15.9},
    ("shuffled", PIXELS): {"alignment": 24.4, "uniformity": 5.4, "triplet": 9.2},
    ("28x4", NORMALISED): {"alignment": 12.1, "uniformity": 27.4, "triplet": 26.7},
    ("56x2", NORMALISED): {"alignment": 18.0, "uniformity": 26.2, "triplet": 24.6},
}
"""R@1 of the same model, trained and attacked by a plain script of some hundred lines; clean R@1 58.9, one seed."""

CLEAN = 58.9
WITHIN = 4.0
"""Points by which figures of the script and of this package may differ: two trainings, one seed each."""


@study("A9")
def make_up_decides(scale: Scale) -> Plan:
    """Which attack looks strongest depends on what batches are made of.

    Multi-similarity, 128 dims, 56 × 2, a constant 1e-5, 2,600 steps on CUB; nothing at pocket scale.
    """
    audits = {(batches, units): adml_arms.audit(units, batches) for units in UNITS for batches in MAKE_UPS}
    columns = {"R@1": "R@1"} | {
        f"{attack}, {batches}, {units}": f"{made.prefix}/{attack}/R@1"
        for (batches, units), made in audits.items()
        for attack in ("alignment", "uniformity", "triplet")
    }
    if scale == "pocket":
        return Plan([], [], [], columns)
    model = adml_arms.half(scale, measures=tuple(audits.values()))
    expected = {"clean R@1: the same": {"R@1": CLEAN}}
    for key, row in SCRIPT.items():
        text = f"batches {key[0]}, {key[1]}: within {WITHIN:g} points of a plain script"
        expected[text] = {f"{audits[key].prefix}/{name}/R@1": value for name, value in row.items()}
    in_pixels = {head: figure for head, figure in columns.items() if PIXELS in head}
    return Plan(
        [model],
        [Judged(text, _close(model.name, figures), levels=True) for text, figures in expected.items()],
        [Bars("R@1 by make-up of batches, ε in pixels", (model.name,), in_pixels)],
        columns,
    )


def _close(name: str, expected: Mapping[str, float]) -> Rule:
    """Whether all figures lie within the tolerance."""

    def rule(results: Results) -> tuple[Status, str]:
        found = {figure: results.mean(name, figure) for figure in expected}
        shown = "; ".join(
            f"{figure}: {NOT_RUN if value is None else f'{value:.1f}'}, script {expected[figure]:g}"
            for figure, value in found.items()
        )
        if len(results.outcomes.get(name, [])) == 1:
            shown += f" {ONE_SEED}"
        known = {figure: value for figure, value in found.items() if value is not None}
        if any(abs(value - expected[figure]) > WITHIN for figure, value in known.items()):
            return "does not hold", shown
        return ("holds" if len(known) == len(expected) else "undecided"), shown

    return rule
