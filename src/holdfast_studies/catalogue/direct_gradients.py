"""Direct gradients: components (G1 to G3), the best combination (G4), triplet diagrams (G5), learning rates (G6)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.gradients import RULES, Components
from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue import direct_gradients_arms as gs
from holdfast_studies.catalogue.direct_gradients_arms import ALIKE, RuleGround
from holdfast_studies.catalogue.rules import VALIDATION, most, steadier, tuned, used
from holdfast_studies.claims import All, Claim, Near, Ordered
from holdfast_studies.declared import declared, paper
from holdfast_studies.drawing import Lines
from holdfast_studies.jobs import Arm, Probe, Scale

WEIGHTS = ("euc", "lin", "lin-ms", "sig", "sig-ms")
DRAWN, PRINTED_SIGN = "sc2 as in figure 3", "sc2 as in Equation 19"


def _rules(name: str, scale: Scale) -> dict[str, Components]:
    """Those that a study compares."""
    return {rule: Components(*parts) for rule, parts in declared(name, scale)["rules"].items()}


DIRECTIONS = _rules("G1", "paper")
RELATIVE = {rule: parts for rule, parts in _rules("G2", "paper").items() if rule in ("cos, lin-ms", "cos, sig-ms")}

R1_OF_DIRECTIONS, R1_OF_PAIRS = gs.highest(gs.DIRECTIONS), gs.highest(gs.PAIRS)
R1_OF_TRIPLETS: dict[str, float] = {
    **gs.highest(gs.TRIPLETS),
    **gs.WITHOUT_RATES,
    "cos + sc2 as printed": gs.WITHOUT_RATES["cos + sc2"],
    "cir + sc2 as printed": max(gs.TRIPLETS["cir + sc2"].values()),
}
"""Rule → R@1 on CARS as printed."""


def by_rate(grounds: tuple[RuleGround, ...], rules: Mapping[str, Components]) -> list[Lines]:
    """R@1 against the learning rate, where rules have several."""
    return [
        ground.by_rate(f"{ground.label} R@1 by learning rate".strip(), {rule: ground.rates_of(rule) for rule in rules})
        for ground in grounds
        if ground.rates
    ]


def above(
    ground: RuleGround, on_cars: Mapping[str, float], text: str, more: str, less: str, least: float = 0.0, **marks: Any
) -> Claim:
    """One rule above another.

    Args:
        ground: where.
        on_cars: rule → R@1 on CARS as printed.
        text: the claim in words.
        more: the rule that should be higher.
        less: the other.
        least: by how much at least.
        marks: `reading` and `limit` of the claim.
    """
    asked = ground.label == "CARS" and least == 0 and on_cars[more] > on_cars[less]
    known = (on_cars[more], on_cars[less]) if asked else ()
    arms = (ground.name(more), ground.name(less))
    claim = Ordered(ground.name(text), arms, noise=ground.noise, least=least, printed=known, **marks)
    return tuned(claim, ground.grids((more, less)))


def near(ground: RuleGround, text: str, one: str, other: str) -> Claim:
    """Two rules close to each other."""
    claim = Near(ground.name(text), (ground.name(one), ground.name(other)), ALIKE, noise=ground.noise)
    return tuned(claim, ground.grids((one, other)))


@study("G1")
def gradient_direction(scale: Scale) -> Plan:
    """Where a direct gradient points: cosine before euclidean."""
    grounds = gs.DIRECTIONS_ON[scale]
    compared = {
        "cos retrieves better than euc": ("cos", "euc"),
        "cos-orth retrieves better than euc-orth": ("cos-orth", "euc-orth"),
        "cos-orth retrieves better than cos": ("cos-orth", "cos"),
    }
    return Plan(
        [arm for ground in grounds for arm in ground.arms(DIRECTIONS)],
        [above(ground, R1_OF_DIRECTIONS, text, *rules) for ground in grounds for text, rules in compared.items()],
        by_rate(grounds, DIRECTIONS),
    )


@study("G2")
def pair_weight(scale: Scale) -> Plan:
    """What a pair counts: most weights help, and lin-ms survives high learning rates."""
    grounds, rules = gs.COMPONENTS[scale], _rules("G2", scale)
    asked = (*grounds, gs.INSHOP) if scale == "paper" else grounds
    arms = [arm for ground in grounds for arm in ground.arms(rules)]
    arms += gs.INSHOP.arms(RELATIVE) if scale == "paper" else []
    arms += [ground.arm(rule, parts, ground.high) for ground in asked for rule, parts in RELATIVE.items()]
    relative = [
        ground.by_rate(
            f"{ground.label} lin-ms and sig-ms at high learning rates".strip(),
            {rule: (*ground.rates_of(rule), ground.high) for rule in RELATIVE},
        )
        for ground in asked
    ]
    claims = [claim for ground in grounds for claim in _of_pair_weights(ground, scale)]
    return Plan(
        arms,
        claims + [_steady(ground) for ground in asked],
        [*by_rate(grounds, rules), *relative],
    )


def _of_pair_weights(ground: RuleGround, scale: Scale) -> list[Claim]:
    """Weights against none, directions under weights, and lin-ms against all."""
    helps = [
        above(ground, R1_OF_PAIRS, f"{way}, {weight} above con", f"{way}, {weight}", f"{way}, con")
        for way in (("cos",) if scale == "pocket" else ("cos", "euc"))
        for weight in WEIGHTS
    ]
    alike = [
        near(ground, f"euc near cos with {weight}", f"euc, {weight}", f"cos, {weight}")
        for weight in (("euc", "lin-ms") if scale == "pocket" else WEIGHTS)
    ]
    best = [
        above(ground, R1_OF_PAIRS, f"lin-ms above {weight}", "cos, lin-ms", f"cos, {weight}", -ALIKE)
        for weight in ("con", *WEIGHTS)
        if weight != "lin-ms"
    ]
    return [
        most(ground.name("most pair weights retrieve better than none"), helps),
        All(ground.name(f"under a pair weight, euc and cos are within {ALIKE:g} points"), tuple(alike)),
        All(ground.name(f"no pair weight beats lin-ms by more than {ALIKE:g} points"), tuple(best)),
    ]


def _steady(ground: RuleGround) -> Claim:
    """The paper finds it on In-shop alone; elsewhere it is asked how far that reaches."""
    steady, other = (
        (ground.arm_name(rule, ground.rates_of(rule)[-1]), ground.arm_name(rule, ground.high)) for rule in RELATIVE
    )
    text = ground.name("a higher learning rate costs lin-ms less than sig-ms")
    return steadier(text, steady, other, noise=2 * ground.noise, limit=ground is not gs.INSHOP)


@study("G3")
def triplet_weight(scale: Scale) -> Plan:
    """What a triplet counts: little depends on it, except for the masks where classes overlap."""
    grounds, rules = gs.COMPONENTS[scale], _rules("G3", scale)
    readings = {rule: PRINTED_SIGN if "as printed" in rule else DRAWN for rule in rules if "sc2" in rule}
    claims: list[Claim] = []
    for ground in grounds:
        for before in ("", "lin, ") if scale == "paper" else ("",):
            text = f"{before}cos and cir are within {ALIKE:g} points of con"
            little = [
                near(ground, f"{before}{weight} near con", before + weight, f"{before}con") for weight in ("cos", "cir")
            ]
            claims.append(All(ground.name(text), tuple(little)))
        claims += [_helps(ground, rule, readings.get(rule, "")) for rule in rules if " + " in rule]
    return Plan(
        [arm for ground in grounds for arm in ground.arms(rules, readings=readings)],
        claims,
        by_rate(grounds, rules),
    )


def _helps(ground: RuleGround, rule: str, reading: str) -> Claim:
    """A mask above none; where the paper's own table has it the other way round, how far it helps."""
    weight, _, mask = rule.partition(" + ")
    before, _, plain = weight.rpartition(", ")
    text = f"{mask.partition(' ')[0]} helps {plain}" + (f" with {before}" if before else "")
    limit = R1_OF_TRIPLETS[rule] < R1_OF_TRIPLETS[weight]
    return above(ground, R1_OF_TRIPLETS, text, rule, weight, reading=reading, limit=limit)


NAMED = {"best": RULES["best"], "DR-MS": RULES["dr-ms"], "MS": RULES["ms"]}
PRINTED: dict[str, dict[str, float]] = paper("direct_gradients")["G4"]["printed"]
"""R@1 of Table 5; of best in larger batches by their size."""


def in_batch(ground: RuleGround, classes: int) -> str:
    """What the best rule is called in a batch of so many classes."""
    return "best" if classes == ground.usual else f"best in batches of {classes * ground.per_class}"


@study("G4")
def best_combination(scale: Scale) -> Plan:
    """The best components together, against MS and DR-MS, and in larger batches."""
    arms: list[Arm] = []
    claims: list[Claim] = []
    drawings = []
    for ground in gs.COMPARISON[scale]:
        rates = ground.rates_of("best")
        batches = {classes: in_batch(ground, classes) for classes in ground.classes}
        arms += ground.arms(NAMED)
        arms += [
            ground.arm(name, NAMED["best"], rate, classes)
            for classes, name in batches.items()
            if classes != ground.usual
            for rate in rates
        ]
        small, _, large, *beyond = batches.values()
        compared = {
            "best retrieves better than MS": ("best", "MS", "best", "MS"),
            "best retrieves better than DR-MS": ("best", "DR-MS", "best", "DR-MS"),
            "best gains from larger batches": (large, small, "384", "best"),
            **({"batches of 512 are too large": (large, beyond[0], "384", "512")} if beyond else {}),
        }
        alike = {"best gains from larger batches": "one learning rate for batches of all sizes"}
        known = PRINTED.get(ground.label, {})
        for text, (more, less, upper, lower) in compared.items():
            names = (ground.name(more), ground.name(less))
            table_5 = (known[upper], known[lower]) if known else ()
            # in another batch the best one has the rates that it has in the usual one
            grids = {
                ground.name(rule): tuple(ground.arm_name(rule, r) for r in ground.rates_of(rule.partition(" in ")[0]))
                for rule in (more, less)
            }
            marks: dict[str, Any] = {"reading": alike.get(text, ""), "limit": less in beyond}
            claims.append(tuned(Ordered(ground.name(text), names, noise=ground.noise, printed=table_5, **marks), grids))
        lines = {
            f"learning rate {rate:g}": {
                float(classes * ground.per_class): ground.arm_name(name, rate) for classes, name in batches.items()
            }
            for rate in rates
        }
        title = f"{ground.label} R@1 by size of the batch".strip()
        drawings.append(Lines(title, lines, x="images in a batch", logarithmic=True))
    return Plan(arms, claims, drawings)


@study("G5")
def triplet_diagrams(scale: Scale) -> Plan:
    """Triplet diagrams: the euclidean direction piles triplets up in the top right corner."""
    rules = {name: DIRECTIONS[name] for name in ("euc", "cos")}
    grounds, paper = gs.DIRECTIONS_ON[scale], scale == "paper"
    probe = Probe("triplet-diagram", {"bound": 0.8, **({"epochs": 5} if paper else {})}, "triplets")
    texts = {
        f"triplets/{split}/corner": f"euc leaves more {split} images in the top right corner than cos"
        for split in ("train", "test")
    }
    edge = "euc has more of its last batches along the right edge than cos"
    texts |= {"triplets/batches/edge": edge} if paper else {}
    return Plan(
        [arm for ground in grounds for arm in ground.arms(rules, (probe,))],
        [
            tuned(
                Ordered(ground.name(text), (ground.name("euc"), ground.name("cos")), figure, noise=2.0),
                ground.grids(rules),
            )
            for ground in grounds
            for figure, text in texts.items()
        ],
    )


CHOOSING = {"data.validation": 0.2, "epochs": 20}
"""A fifth of the training classes is held out, and a third of the epochs will do."""


@study("G6")
def learning_rates(scale: Scale) -> Plan:
    """Learning rates of direct gradients, chosen once, on a split of the training classes.

    Those of the paper's appendix; for the named rules, of which it prints none, those around what the tables use. At
    pocket scale each table chooses for itself.
    """
    tables: list[tuple[RuleGround, dict[str, Components], Mapping[str, Sequence[float]]]] = []
    tables += [
        (ground, DIRECTIONS, {r: [*row] for r, row in gs.DIRECTIONS.items()}) for ground in gs.DIRECTIONS_ON["paper"]
    ]
    tables += [(ground, NAMED, gs.TRIED_RATES) for ground in gs.COMPARISON["paper"]]
    arms, claims, drawings = [], [], []
    for ground, rules, tried in tables if scale == "paper" else ():
        for rule, parts in rules.items():
            grid = {rate: ground.arm_name(rule, rate) for rate in tried[rule]}
            arms += [ground.arm(rule, parts, rate, settings=CHOOSING) for rate in grid]
            text = ground.name(f"{rule} is best at the rate that the tables use")
            claims.append(used(text, grid, ground.chosen[rule], noise=ground.noise))
        title = f"{ground.name(', '.join(rules))}: validation R@1 by learning rate"
        drawings.append(ground.by_rate(title, {rule: tried[rule] for rule in rules}, VALIDATION))
    return Plan([dataclasses.replace(arm, seeds=None) for arm in arms], claims, drawings)
