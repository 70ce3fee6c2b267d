"""What the studies of easy positive sampling train: each loss with its own positives and with the nearest one."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from holdfast.config import instantiate
from holdfast_studies.declared import at_scale, paper
from holdfast_studies.jobs import SCALES, Arm, Measure, Probe, Scale, Training

Row: TypeAlias = dict[str, Any]
"""Dotted overrides of a recipe, as the paper has them for a row of its table."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """A loss as it is usually sampled, and with easy positives and the same rule for negatives.

    Args:
        loss: its block, without a miner.
        miner: how it is usually sampled.
        negative: the miner whose negatives go with easy positives.
        more: what else the paper has for both.
        reading: of what the paper leaves unsaid about the usual sampling.
    """

    loss: Row
    miner: str | Row
    negative: str
    more: Row = dataclasses.field(default_factory=dict)
    reading: str = ""

    @property
    def usual(self) -> Row:
        """Without easy positives."""
        return {**self.more, "loss": {**self.loss, "miner": self.miner}}

    @property
    def easy(self) -> Row:
        """With them."""
        return {**self.more, "loss": {**self.loss, "miner": {"name": "easy-positive", "negative": self.negative}}}


@dataclasses.dataclass(frozen=True)
class LossGround:
    """Where losses are compared.

    Args:
        label: before the names of its arms.
        data: the dataset, as in `Training`.
        recipe: a shipped recipe.
        row: what the paper has otherwise here.
        settings: what we have otherwise.
        start: a training whose model all of them start from.
        seeds: of its arms, where they are not those of the scale.
        reading: of what the paper leaves unsaid, in all of its arms.
    """

    label: str
    data: str | dict[str, Any]
    recipe: str
    row: Row = dataclasses.field(default_factory=dict)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    start: Training | None = None
    seeds: tuple[int, ...] | None = None
    reading: str = ""

    def training(self, row: Row, measures: tuple[Measure, ...] = (), settings: Row | None = None) -> Training:
        """One loss here."""
        over = {**self.settings, **(settings or {})}
        return Training(self.recipe, self.data, {**self.row, **row}, over, measures, self.start)

    def arm(
        self,
        name: str,
        row: Row,
        measures: tuple[Measure, ...] = (),
        settings: Row | None = None,
        reading: str = "",
        seeds: tuple[int, ...] | None = None,
    ) -> Arm:
        """The same as an arm, `LABEL NAME`.

        Args:
            name: of the arm, behind the label.
            row: what the paper has for it.
            measures: of the trained model.
            settings: of ours, over those of the ground.
            reading: in place of the ground's own.
            seeds: likewise.
        """
        job = self.training(row, measures, settings)
        return Arm(f"{self.label} {name}", job, seeds or self.seeds, reading or self.reading)

    def pair(
        self, name: str, pair: Pair, measures: tuple[Measure, ...] = (), seeds: tuple[int, ...] | None = None
    ) -> list[Arm]:
        """A loss without and with easy positives: `LABEL NAME` and `LABEL NAME + EPS`."""
        return [
            self.arm(name, pair.usual, measures, reading=pair.reading, seeds=seeds),
            self.arm(f"{name} + EPS", pair.easy, measures, seeds=seeds),
        ]

    def names(self, name: str) -> tuple[str, str]:
        """Of the two arms of a pair, the one that the paper expects to win first."""
        return f"{self.label} {name} + EPS", f"{self.label} {name}"


SEEN = Probe(function="retrieval", arguments={"split": "train", "factor": 30}, name="seen")
"""Both label sets on the images trained on, NMI+ as the paper has it on Omniglot."""

_EPS = paper("easy_positives")
SOFT = str(_EPS["words"]["soft"])
PAIRS: dict[str, Pair] = instantiate(dict[str, Pair], _EPS["losses"])
LOSSES = {name: PAIRS[name] for name in ("triplet", "margin", "MS")}
"""The three of the paper's tables."""

SOFTHARD: Row = {"loss": {**PAIRS["triplet"].loss, "miner": "softhard"}}
"""Triplets without easy positives, read the other way."""


def ground(name: str, scale: Scale = "pocket") -> LossGround:
    """One of the paper's YAML file."""
    found: LossGround = instantiate(LossGround, at_scale(_EPS["grounds"][name], scale, {}), where=name)
    return found


OMNIGLOT: dict[Scale, LossGround] = {scale: ground("omniglot", scale) for scale in SCALES}
SCRIPTS, GLYPHS, CUB, CARS, DIGITS = map(ground, ("scripts", "glyphs", "cub", "cars", "digits"))
