"""What the studies of easy positive sampling train: each loss with its own positives and with the nearest one."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from holdfast_studies.declared import paper
from holdfast_studies.jobs import Arm, Measure, Probe, Scale, Training

Row: TypeAlias = dict[str, Any]
"""Dotted overrides of a recipe, as the paper has them for a row of its table."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """A loss as it is usually sampled, and with easy positives and the same rule for negatives; `ours` over both."""

    usual: Row
    easy: Row
    ours: Row = dataclasses.field(default_factory=dict)
    reading: str = ""


def _pair(loss: dict[str, Any], miner: Any, negative: str, more: Row | None = None, **rest: Any) -> Pair:
    easy = {"name": "easy-positive", "negative": negative}
    usual, with_easy = ({**(more or {}), "loss": {**loss, "miner": chosen}} for chosen in (miner, easy))
    return Pair(usual=usual, easy=with_easy, **rest)


TRIPLET: dict[str, Any] = {"name": "triplet", "margin": 0.2, "squared": True}
MARGIN: dict[str, Any] = {"name": "margin", "margin": 0.2, "beta": 1.2}
MULTI_SIMILARITY: dict[str, Any] = {
    "name": "multi-similarity",
    "alpha": 2.0,
    "beta": 50.0,
    "base": 1.0,
    "reduction": "mined",
}
"""With the settings that this paper prints, averaged as its framework does."""

BAND, SOFT = (str(paper("easy_positives")["words"][reading]) for reading in ("band", "soft"))

LOSSES: dict[str, Pair] = {
    "triplet": _pair(TRIPLET, {"name": "semihard", "positives": "semihard"}, "semihard", reading=BAND),
    "margin": _pair(MARGIN, "distance", "distance", {"optimizer.loss_lr": 5e-4}),
    "MS": _pair(MULTI_SIMILARITY, "multi-similarity", "multi-similarity"),
}
"""The three of the paper's tables."""

SOFTHARD: Row = {"loss": {**TRIPLET, "miner": "softhard"}}
"""Triplets without easy positives, read the other way."""

OWN_MS = dataclasses.replace(LOSSES["MS"], ours={"loss.beta": 40.0, "loss.base": 0.5})
"""Multi-similarity with the values of the paper's framework."""

PLAIN = _pair(TRIPLET, "random", "random")
"""Positives at random against the nearest one, negatives at random: the MNIST experiment, and what the paper trims."""


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
        """The same as an arm, `LABEL NAME`."""
        job = self.training(row, measures, settings)
        return Arm(f"{self.label} {name}", job, seeds or self.seeds, reading or self.reading)

    def pair(
        self, name: str, pair: Pair, measures: tuple[Measure, ...] = (), seeds: tuple[int, ...] | None = None
    ) -> list[Arm]:
        """A loss without and with easy positives: `LABEL NAME` and `LABEL NAME + EPS`."""
        return [
            self.arm(name, pair.usual, measures, pair.ours, pair.reading, seeds),
            self.arm(f"{name} + EPS", pair.easy, measures, pair.ours, seeds=seeds),
        ]

    def names(self, name: str) -> tuple[str, str]:
        """Of the two arms of a pair, the one that the paper expects to win first."""
        return f"{self.label} {name} + EPS", f"{self.label} {name}"


SEEN = Probe(function="retrieval", arguments={"split": "train", "factor": 30}, name="seen")
"""Both label sets on the images trained on, NMI+ as the paper has it on Omniglot."""

KEEP_GOING = {"on_collapse": "warn"}
"""A collapsed embedding is what these studies are about, so it is measured like any other."""

_POCKET = {**KEEP_GOING, "batch.classes": 7, "batch.per_class": 16}

PRINTED = Training(recipe="pocket", settings={"epochs": 24, "evaluate_every": 24})
"""Printed characters told apart: what Omniglot's pocket arms start from, as the paper's start from ImageNet."""

EPOCHS = 100
"""At paper scale, where the paper's framework has 150."""

LANGUAGES = {"name": "omniglot", "labels": "coarse"}
SMALL = {**_POCKET, "epochs": 8, "evaluate_every": 8, "optimizer.lr": 1e-3, "clustering.factor": 30}
LONG = {**KEEP_GOING, "epochs": EPOCHS, "evaluate_every": 10}
OMNIGLOT: dict[Scale, LossGround] = {
    "pocket": LossGround("Omniglot", LANGUAGES, "pocket", settings=SMALL, start=PRINTED),
    "paper": LossGround("Omniglot", LANGUAGES, "eps-omniglot", settings=LONG, seeds=(0, 1, 2)),
}
"""Languages only; small images and seven languages of sixteen drawings a batch, or the paper's setting."""

LENGTH = {"epochs": 24, "evaluate_every": 24}
SCRIPTS = LossGround("Scripts", {"name": "glyphs", "labels": "coarse"}, "pocket", settings={**_POCKET, **LENGTH})
"""The embedded relative of Omniglot: printed characters learnt by their script."""

GLYPHS = LossGround("Glyphs", "glyphs", "pocket", settings={**KEEP_GOING, **LENGTH})
"""Fine labels, 28 characters of four images a batch."""


def photographs(data: str) -> LossGround:
    """The paper's fine-grained benchmarks: batches of 160 as 40 classes of four."""
    return LossGround(data.upper(), data, "eps-triplet", settings=LONG)
