"""What the studies of direct gradients train: rules at their learning rates, on the data of either scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from holdfast.config import instantiate
from holdfast.gradients import Components
from holdfast_studies.declared import paper
from holdfast_studies.drawing import Lines
from holdfast_studies.jobs import Arm, Measure, Scale, Training

Table: TypeAlias = dict[str, dict[float, float]]
"""Rule → learning rate → R@1 on CARS, as the paper's appendix prints it."""


def _printed(study: str) -> Table:
    tables = paper("direct_gradients")[study]["printed"]
    return {rule: dict(zip(t["rates"], row, strict=True)) for t in tables for rule, row in t["R@1"].items()}


def best(table: Table) -> dict[str, float]:
    """Rule → the learning rate of its best figure."""
    return {rule: max(row, key=lambda rate: row[rate]) for rule, row in table.items()}


def highest(table: Table) -> dict[str, float]:
    """Rule → its best figure, which Tables 2 to 4 print."""
    return {rule: max(row.values()) for rule, row in table.items()}


DIRECTIONS, PAIRS, TRIPLETS = _printed("G1"), _printed("G2"), _printed("G3")
_WITHOUT_RATES = paper("direct_gradients")["without_rates"]
WITHOUT_RATES: dict[str, float] = {rule: printed for rule, (printed, _) in _WITHOUT_RATES.items()}
OTHER_MASK: dict[str, str] = {rule: other for rule, (_, other) in _WITHOUT_RATES.items()}
OTHER_MASK |= {"cos + sc2 as printed": "cos + sc1", "cir + sc2 as printed": "cir + sc2"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuleGround:
    """Where rules are compared.

    Args:
        label: before the names of its arms.
        data: the dataset.
        recipe: a shipped recipe with the loss `gradient`.
        per_class: images of each class in a batch.
        classes: in a batch, where sizes of batches are compared; from small to large.
        usual: classes in a batch everywhere else.
        settings: of ours, laid over the recipe.
        start: what every arm starts from, where the recipe has no weights of its own to start from.
        chosen: rule → its learning rate.
        rates: of rules that have none chosen: all are trained, and the validation classes choose.
        high: a rate above them, to see who still stands.
        seeds: where they are not those of the scale.
        noise: points of R@1 that two arms may differ by with one seed and no cause.
    """

    label: str
    data: str
    recipe: str
    per_class: int
    classes: tuple[int, ...]
    usual: int
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    start: Training | None = None
    chosen: dict[str, float] = dataclasses.field(default_factory=dict)
    rates: tuple[float, ...] = ()
    high: float = 0.0
    seeds: tuple[int, ...] | None = None
    noise: float = 1.3

    def name(self, rule: str) -> str:
        """Of a rule here, whatever its learning rate."""
        return f"{self.label} {rule}".strip()

    def arm_name(self, rule: str, rate: float) -> str:
        """Of a rule here at one learning rate."""
        return f"{self.name(rule)} @ {rate:g}"

    def rates_of(self, rule: str) -> tuple[float, ...]:
        """The learning rates at which a rule is trained."""
        return (self.chosen[rule],) if rule in self.chosen else self.rates

    def arm(
        self,
        rule: str,
        parts: Components,
        rate: float,
        classes: int | None = None,
        measures: tuple[Measure, ...] = (),
        settings: Mapping[str, Any] | None = None,
        reading: str = "",
    ) -> Arm:
        """One rule at one learning rate.

        Args:
            rule: in the arm's name.
            parts: what it is made of.
            rate: the learning rate.
            classes: in a batch; the usual number when left out.
            measures: of the trained model.
            settings: of ours, over those of the ground.
            reading: of what the paper leaves unsaid.
        """
        # The parts, not the name of a rule: a rule that two studies call differently is then one training.
        loss: dict[str, Any] = {f"loss.{kind}": part for kind, part in parts._asdict().items() if part is not None}
        batch = {"batch.classes": classes or self.usual, "batch.per_class": self.per_class}
        row, over = {**loss, **batch, "optimizer.lr": rate}, {**self.settings, **(settings or {})}
        job = Training(self.recipe, self.data, row, over, measures, self.start)
        return Arm(self.arm_name(rule, rate), job, self.seeds, reading)

    def arms(
        self,
        rules: Mapping[str, Components],
        measures: tuple[Measure, ...] = (),
        readings: Mapping[str, str] | None = None,
    ) -> list[Arm]:
        """Every rule at its learning rate, or at all of them."""
        return [
            self.arm(rule, parts, rate, measures=measures, reading=(readings or {}).get(rule, ""))
            for rule, parts in rules.items()
            for rate in self.rates_of(rule)
        ]

    def grids(self, rules: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Rule → its arms, from which the validation classes choose where there are several."""
        return {self.name(rule): tuple(self.arm_name(rule, rate) for rate in self.rates_of(rule)) for rule in rules}

    def by_rate(self, title: str, rates: Mapping[str, Iterable[float]], figure: str = "R@1") -> Lines:
        """A figure of some rules against their learning rates."""
        lines = {rule: {rate: self.arm_name(rule, rate) for rate in own} for rule, own in rates.items()}
        return Lines(title, lines, figure, x="learning rate", logarithmic=True)


ALIKE = 3.0
"""Points of R@1 within which two rules are called equal; one seed cannot tell less."""

TRIPLET_RATES = best(TRIPLETS)
PRINTED_RATES = {
    **best(DIRECTIONS),
    **best(PAIRS),
    **TRIPLET_RATES,
    **{rule: TRIPLET_RATES[other] for rule, other in OTHER_MASK.items()},
}
"""Rule → the best rate of the paper's appendix on CARS."""

NAMED_RATES: dict[str, float] = paper("direct_gradients")["named_rates"]
TRIED_RATES: dict[str, list[float]] = paper("direct_gradients")["tried_rates"]
"""Of a split, for rules of which the paper prints no rate."""


def _ground(name: str) -> RuleGround:
    """One of the paper's YAML file."""
    row = dict(paper("direct_gradients")["grounds"][name])
    chosen = {"printed": PRINTED_RATES, "named": NAMED_RATES}.get(row.pop("chosen", ""), {})
    found: RuleGround = instantiate(RuleGround, row, where=name)
    return dataclasses.replace(found, chosen=chosen)


GLYPHS, CARS, CUB, INSHOP = map(_ground, ("GLYPHS", "CARS", "CUB", "INSHOP"))
CARS_RESNET50, CUB_RESNET50 = map(_ground, ("CARS_RESNET50", "CUB_RESNET50"))
DIRECTIONS_ON: dict[Scale, tuple[RuleGround, ...]] = {
    "pocket": (GLYPHS,),
    "paper": (dataclasses.replace(CARS, seeds=(0, 1)), CUB),
}
COMPONENTS: dict[Scale, tuple[RuleGround, ...]] = {"pocket": (GLYPHS,), "paper": (CARS,)}
COMPARISON: dict[Scale, tuple[RuleGround, ...]] = {"pocket": (GLYPHS,), "paper": (CARS_RESNET50, CUB_RESNET50)}
