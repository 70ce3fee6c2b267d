"""The learning rates of direct gradients, chosen on a split of the training classes: study G6."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from holdfast.gradients import Components
from holdfast_studies.base import Study, register
from holdfast_studies.catalogue import direct_gradients_printed as printed
from holdfast_studies.catalogue.direct_gradients import DIRECTIONS
from holdfast_studies.catalogue.direct_gradients_arms import COMPARISON, DIRECTIONS_ON, Ground
from holdfast_studies.catalogue.direct_gradients_best import NAMED
from holdfast_studies.catalogue.direct_gradients_claims import VALIDATION, used
from holdfast_studies.claims import Claim
from holdfast_studies.drawings import Drawing, Lines
from holdfast_studies.jobs import Arm, Scale

CHOOSING = {"data.validation": 0.2, "epochs": 20}
"""A fifth of the training classes is held out, and a third of the epochs will do."""

RATES = {"directions": tuple(printed.DIRECTIONS["cos"]), "named": (0.1, 0.2, 0.4, 0.8)}
"""Those of the paper's appendix; for the named rules, of which it prints none, those of its pair weights and more."""


def tables() -> list[tuple[Ground, Mapping[str, Components], tuple[float, ...]]]:
    """Where, which rules, and at which rates."""
    return [
        *((ground, DIRECTIONS, RATES["directions"]) for ground in DIRECTIONS_ON["paper"]),
        *((ground, NAMED, RATES["named"]) for ground in COMPARISON["paper"]),
    ]


@register("G6")
class LearningRates(Study):
    """Learning rates of direct gradients, chosen once, on a split of the training classes."""

    id = "G6"
    source = "beyond the paper, which chooses on test classes"
    published = "for directions Appendix Table 1, by test classes: euc 0.05, cos 0.1, euc-orth 0.05, cos-orth 0.1"
    ours = True

    def arms(self, scale: Scale) -> list[Arm]:
        """Every rule at every rate; at pocket scale each table chooses for itself."""
        if scale == "pocket":
            return []
        return [
            dataclasses.replace(ground.arm(rule, parts, rate, settings=CHOOSING), seeds=None)
            for ground, rules, rates in tables()
            for rule, parts in rules.items()
            for rate in rates
        ]

    def claims(self, scale: Scale) -> list[Claim]:
        """That what G1, G4 and G5 use is what the split prefers."""
        if scale == "pocket":
            return []
        return [
            used(
                ground.name(f"{rule} is best at the rate that the tables use"),
                {rate: ground.arm_name(rule, rate) for rate in rates},
                ground.chosen[rule],
            )
            for ground, rules, rates in tables()
            for rule in rules
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """Only what is chosen by: test figures would be looked at."""
        return {"validation R@1": VALIDATION}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Validation R@1 against the rate."""
        if scale == "pocket":
            return []
        return [
            Lines(
                title=f"{ground.name(', '.join(rules))}: validation R@1 by learning rate",
                lines={rule: {rate: ground.arm_name(rule, rate) for rate in rates} for rule in rules},
                figure=VALIDATION,
                x="learning rate",
                logarithmic=True,
            )
            for ground, rules, rates in tables()
        ]

    def notes(self, scale: Scale) -> str:
        """How."""
        return (
            "20 epochs on four fifths of the training classes, judged on the other fifth, one seed. Where the best "
            "lies at the edge of the rates tried, more are to be tried."
        )
