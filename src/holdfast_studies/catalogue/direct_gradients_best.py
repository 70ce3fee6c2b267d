"""The best combination of components, what directions do to triplets, and learning rates: studies G4 to G6."""

from __future__ import annotations

import dataclasses

from holdfast.gradients import RULES
from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue import direct_gradients_arms as printed
from holdfast_studies.catalogue.direct_gradients import DIRECTIONS, chosen_by
from holdfast_studies.catalogue.direct_gradients_arms import COMPARISON, DIRECTIONS_ON, R1_NOISE, Ground
from holdfast_studies.catalogue.rules import VALIDATION, tuned, used
from holdfast_studies.claims import Claim, Ordered
from holdfast_studies.drawing import Curves, Lines
from holdfast_studies.jobs import Arm, Probe, Scale

NAMED = {"best": RULES["best"], "DR-MS": RULES["dr-ms"], "MS": RULES["ms"]}
PRINTED: dict[str, dict[str, float]] = {
    "CARS": {"MS": 79.0, "DR-MS": 79.9, "best": 82.5, "256": 85.5, "384": 86.5, "512": 85.7},
    "CUB": {"MS": 59.8, "DR-MS": 60.7, "best": 63.5, "256": 63.8, "384": 63.8, "512": 63.1},
}
"""R@1 of Table 5; of best in larger batches by their size."""


def in_batch(ground: Ground, classes: int) -> str:
    """What the best rule is called in a batch of so many classes."""
    return "best" if classes == ground.usual else f"best in batches of {classes * ground.per_class}"


@study("G4")
def best_combination(scale: Scale) -> Plan:
    """The best components together, against MS and DR-MS, and in larger batches."""
    arms: list[Arm] = []
    claims: list[Claim] = []
    drawings = []
    for ground in COMPARISON[scale]:
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
        known = PRINTED.get(ground.label, {})
        for text, (more, less, upper, lower) in compared.items():
            names = (ground.name(more), ground.name(less))
            gap = (known[upper] - known[lower],) if known else ()
            # in another batch the best one has the rates that it has in the usual one
            grids = {
                ground.name(rule): tuple(ground.arm_name(rule, r) for r in ground.rates_of(rule.partition(" in ")[0]))
                for rule in (more, less)
            }
            claims.append(tuned(Ordered(ground.name(text), names, noise=R1_NOISE, printed=gap), grids))
        lines = {
            f"learning rate {rate:g}": {
                float(classes * ground.per_class): ground.arm_name(name, rate) for classes, name in batches.items()
            }
            for rate in rates
        }
        title = f"{ground.label} R@1 by size of the batch".strip()
        drawings.append(Lines(title, lines, x="images in a batch", logarithmic=True))
    return Plan(
        arms,
        claims,
        drawings,
        {"R@1": "R@1", "R@2": "R@2", "R@4": "R@4", **chosen_by(scale)},
    )


@study("G5")
def triplet_diagrams(scale: Scale) -> Plan:
    """Triplet diagrams: the euclidean direction piles triplets up in the top right corner."""
    rules = {name: DIRECTIONS[name] for name in ("euc", "cos")}
    grounds, paper = DIRECTIONS_ON[scale], scale == "paper"
    probe = Probe("triplet-diagram", {"bound": 0.8, **({"epochs": 5} if paper else {})}, "triplets")
    texts = {
        f"triplets/{split}/corner": f"euc leaves more {split} images in the top right corner than cos"
        for split in ("train", "test")
    }
    edge = "euc has more of its last batches along the right edge than cos"
    texts |= {"triplets/batches/edge": edge} if paper else {}
    parts = {"batches": "training batches"} if paper else {}
    parts |= {"train": "train images", "test": "test images"}
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
        [
            Curves(
                f"{ground.label} triplet diagram, {words}".strip(),
                tuple(arm for arms in ground.grids(rules).values() for arm in arms),
                f"triplets/{part}",
                "similarity to the nearest positive",
                "similarity to the nearest negative",
                points=True,
            )
            for ground in grounds
            for part, words in parts.items()
        ],
        {
            **({"batches edge": "triplets/batches/edge"} if paper else {}),
            "train corner": "triplets/train/corner",
            "test corner": "triplets/test/corner",
            "test edge": "triplets/test/edge",
            "test s_ap": "triplets/test/near",
            "test s_an": "triplets/test/far",
            "test overlap": "triplets/test/overlap",
            "R@1": "R@1",
            **chosen_by(scale),
        },
    )


CHOOSING = {"data.validation": 0.2, "epochs": 20}
"""A fifth of the training classes is held out, and a third of the epochs will do."""


@study("G6")
def learning_rates(scale: Scale) -> Plan:
    """Learning rates of direct gradients, chosen once, on a split of the training classes.

    Those of the paper's appendix; for the named rules, of which it prints none, those of its pair weights and more. At
    pocket scale each table chooses for itself.
    """
    tables = [(ground, DIRECTIONS, tuple(printed.DIRECTIONS["cos"])) for ground in DIRECTIONS_ON["paper"]]
    tables += [(ground, NAMED, (0.1, 0.2, 0.4, 0.8)) for ground in COMPARISON["paper"]]
    arms, claims, drawings = [], [], []
    for ground, rules, rates in tables if scale == "paper" else ():
        for rule, parts in rules.items():
            arms += [ground.arm(rule, parts, rate, settings=CHOOSING) for rate in rates]
            text = ground.name(f"{rule} is best at the rate that the tables use")
            claims.append(used(text, {rate: ground.arm_name(rule, rate) for rate in rates}, ground.chosen[rule]))
        title = f"{ground.name(', '.join(rules))}: validation R@1 by learning rate"
        drawings.append(ground.by_rate(title, dict.fromkeys(rules, rates), VALIDATION))
    return Plan(
        [dataclasses.replace(arm, seeds=None) for arm in arms],
        claims,
        drawings,
        {"validation R@1": VALIDATION},
    )
