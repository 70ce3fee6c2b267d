"""What the studies of easy positive sampling train: each loss with its own positives and with the nearest one."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from holdfast.studies.catalogue.paper_settings import PAPER
from holdfast.studies.jobs import Arm, Measure, Probe, Scale, Training

LossBlock: TypeAlias = dict[str, Any]

MULTI_SIMILARITY: LossBlock = {"name": "multi-similarity", "alpha": 2.0, "beta": 50.0, "base": 1.0}
"""With the settings that this paper prints; elsewhere β is 40 and λ 0.5."""


R1_NOISE = 4.0
"""Points of R@1 that two arms may differ by with one seed and no cause: 1.645 × the pooled standard deviation of a
difference between arms (2.4), measured at pocket scale; E1, in the plane, has far more and many seeds."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """A loss as it is usually sampled, and with easy positives and the same rule for negatives.

    Args:
        usual: without easy positives.
        easy: with them.
    """

    usual: LossBlock
    easy: LossBlock


def _pair(loss: LossBlock, miner: Any, negative: str) -> Pair:
    easy = {"name": "easy-positive", "negative": negative}
    return Pair(usual={**loss, "miner": miner}, easy={**loss, "miner": easy})


TRIPLET: LossBlock = {"name": "triplet", "margin": 0.2}
MARGIN: LossBlock = {"name": "margin", "margin": 0.2, "beta": 1.2}

LOSSES: dict[str, Pair] = {
    "triplet": _pair(TRIPLET, {"name": "semihard", "positives": "semihard"}, "semihard"),
    "margin": _pair(MARGIN, "distance", "distance"),
    "MS": _pair(MULTI_SIMILARITY, "multi-similarity", "multi-similarity"),
}
"""The three of the paper's tables."""

PLAIN = _pair(TRIPLET, "random", "random")
"""Triplets drawn at random, which the paper trims."""

ONE_POSITIVE = _pair(TRIPLET, "semihard", "semihard")
"""Positives at random against the nearest one, negatives alike: the MNIST experiment."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ground:
    """Where losses are compared.

    Args:
        label: before the names of its arms.
        data: the dataset, as in `Training`.
        recipe: a shipped recipe.
        settings: laid over it.
        start: a training whose model all of them start from.
        seeds: of its arms, where they are not those of the scale.
    """

    label: str
    data: str | dict[str, Any]
    recipe: str
    settings: dict[str, Any]
    start: Training | None = None
    seeds: tuple[int, ...] | None = None

    def arm(
        self, name: str, loss: LossBlock, measures: tuple[Measure, ...] = (), settings: dict[str, Any] | None = None
    ) -> Arm:
        """One loss here."""
        job = Training(
            recipe=self.recipe,
            data=self.data,
            settings={**self.settings, **(settings or {}), "loss": loss},
            measures=measures,
            start=self.start,
        )
        return Arm(name=f"{self.label} {name}", job=job, seeds=self.seeds)

    def pair(self, name: str, pair: Pair, measures: tuple[Measure, ...] = ()) -> list[Arm]:
        """A loss without and with easy positives: `LABEL NAME` and `LABEL NAME + EPS`."""
        return [self.arm(name, pair.usual, measures), self.arm(f"{name} + EPS", pair.easy, measures)]

    def names(self, name: str) -> tuple[str, str]:
        """Of the two arms of a pair, the one that the paper expects to win first."""
        return f"{self.label} {name} + EPS", f"{self.label} {name}"


SEEN = Probe(function="retrieval", arguments={"split": "train"}, name="seen")
"""Both label sets on the images trained on."""

SEEN_SAMPLE = Probe(function="retrieval", arguments={"split": "train", "limit": 6000}, name="seen")
"""The same on 6,000 of them."""

KEEP_GOING = {"on_collapse": "warn"}
"""A collapsed embedding is what these studies are about, so it is measured like any other."""

_POCKET = {**KEEP_GOING, "batch.classes": 7, "batch.per_class": 16}

PRINTED = Training(recipe="pocket", settings={"epochs": 24, "evaluate_every": 24})
"""Printed characters told apart: what Omniglot's pocket arms start from, as the paper's start from ImageNet."""

OMNIGLOT: dict[Scale, Ground] = {
    "pocket": Ground(
        label="Omniglot",
        data={"name": "omniglot", "labels": "coarse"},
        recipe="pocket",
        settings={**_POCKET, "epochs": 8, "evaluate_every": 8, "optimizer.lr": 1e-3},
        start=PRINTED,
    ),
    "paper": Ground(
        label="Omniglot",
        data={"name": "omniglot", "labels": "coarse"},
        recipe="eps-omniglot",
        settings={**KEEP_GOING, "epochs": 20, "evaluate_every": 20},
    ),
}
"""Languages only; small pictures and seven languages of sixteen drawings a batch, or the paper's setting."""

SCRIPTS = Ground(
    label="Scripts",
    data={"name": "glyphs", "labels": "coarse"},
    recipe="pocket",
    settings={**_POCKET, "epochs": 24, "evaluate_every": 24},
)
"""The embedded relative of Omniglot: printed characters learnt by their script."""

GLYPHS = Ground(
    label="Glyphs", data="glyphs", recipe="pocket", settings={**KEEP_GOING, "epochs": 24, "evaluate_every": 24}
)
"""Fine labels, 28 characters of four images a batch."""


def photographs(data: str) -> Ground:
    """The paper's fine-grained benchmarks: batches of 160 as 40 classes of four."""
    return Ground(
        label=data.upper(),
        data=data,
        recipe="resnet50-ms",
        settings={**PAPER, **KEEP_GOING, "batch.classes": 40, "batch.per_class": 4, "optimizer.loss_lr": 5e-4},
    )
