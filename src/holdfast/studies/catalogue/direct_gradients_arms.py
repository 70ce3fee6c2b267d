"""What the studies of direct gradients train: rules at several learning rates, on the data of either scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.gradients.named import Components
from holdfast.studies.catalogue.paper_settings import PAPER
from holdfast.studies.jobs import Arm, Measure, Scale, Training


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ground:
    """Where rules are compared.

    Args:
        label: before the names of its arms.
        data: the dataset.
        recipe: a shipped recipe with the loss `gradient`.
        settings: laid over it.
        start: what every arm starts from, where the recipe has no weights of its own to start from.
        rates: the learning rates among which every rule is given its own, by the validation classes.
        high: a rate above them, to see who still stands.
        classes: in a batch, where sizes of batches are compared; from small to large.
        per_class: images of each.
        usual: classes in a batch everywhere else.
    """

    label: str
    data: str
    recipe: str
    settings: Mapping[str, Any]
    rates: tuple[float, ...]
    high: float
    classes: tuple[int, int, int]
    per_class: int
    usual: int
    start: Training | None = None

    def name(self, rule: str) -> str:
        """Of a rule here, whatever its learning rate."""
        return f"{self.label} {rule}".strip()

    def arm_name(self, rule: str, rate: float) -> str:
        """Of a rule here at one learning rate."""
        return f"{self.name(rule)} @ {rate:g}"

    def arm(
        self, rule: str, parts: Components, rate: float, classes: int | None = None, measures: tuple[Measure, ...] = ()
    ) -> Arm:
        """One rule at one learning rate, in the usual batch unless said otherwise."""
        # The parts, not the name of a rule: a rule that two studies call differently is then one training.
        loss = {f"loss.{kind}": part for kind, part in parts._asdict().items() if part is not None}
        batch = {"batch.classes": classes or self.usual, "batch.per_class": self.per_class}
        settings = {**self.settings, **loss, **batch, "optimizer.lr": rate}
        job = Training(recipe=self.recipe, data=self.data, settings=settings, measures=measures, start=self.start)
        return Arm(name=self.arm_name(rule, rate), job=job)

    def arms(self, rules: Mapping[str, Components], measures: tuple[Measure, ...] = ()) -> list[Arm]:
        """Every rule at every learning rate."""
        return [self.arm(rule, parts, rate, measures=measures) for rule, parts in rules.items() for rate in self.rates]

    def grids(self, rules: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Rule → its arms, from which the validation classes choose."""
        return {self.name(rule): tuple(self.arm_name(rule, rate) for rate in self.rates) for rule in rules}


R1_NOISE = 2.0
"""Points of R@1 that two arms may differ by with one seed and no cause: that of the ADML studies, whose trainings are
the most alike; these have not been measured with several seeds yet."""

ALIKE = 3.0
"""Points of R@1 within which two rules are called equal; one seed cannot tell less."""

COLLAPSE = {"on_collapse": "warn"}
"""A rule that gathers all images in one point is a result: it is trained to the end and keeps its R@1."""

GLYPHS = Ground(
    label="",
    data="glyphs",
    recipe="gs-pocket",
    settings={"epochs": 12, "evaluate_every": 12, **COLLAPSE},
    rates=(0.0025, 0.01),
    high=0.04,
    classes=(16, 28, 56),
    per_class=4,
    usual=28,
    start=Training(recipe="pocket", settings={"epochs": 6, "evaluate_every": 6}),
)
"""The start stands for ImageNet weights: a few epochs of multi-similarity on the same training classes. In an untrained
network nearest negatives are closer than nearest positives, and rules that pull and push alike gather everything in one
point."""

CUB = Ground(
    label="CUB",
    data="cub",
    recipe="gs-cars",
    settings={**PAPER, **COLLAPSE, "data.validation": 0.2, "model.backbone": "resnet50"},
    rates=(0.1, 0.2, 0.4),
    high=1.6,
    classes=(16, 32, 48),
    per_class=8,
    usual=16,
)
"""A fifth of the training classes is kept to choose learning rates on."""

CARS = Ground(
    label="CARS",
    data="cars",
    recipe="gs-cars",
    settings=COLLAPSE,
    rates=(0.05, 0.1, 0.2, 0.4),
    high=1.6,
    classes=(8, 16, 24),
    per_class=16,
    usual=8,
)
"""As the paper compared components: ResNet-18, 60 epochs, and the four rates of its Appendix Tables 2 and 3 (Table 1,
of directions, has 0.025 in the place of 0.4)."""

CARS_RESNET50 = dataclasses.replace(CARS, settings={**COLLAPSE, "model.backbone": "resnet50", "epochs": 80})
"""As the paper compared itself with others."""

COMPONENTS: dict[Scale, tuple[Ground, ...]] = {"pocket": (GLYPHS,), "paper": (CUB, CARS)}
COMPARISON: dict[Scale, tuple[Ground, ...]] = {"pocket": (GLYPHS,), "paper": (CUB, CARS_RESNET50)}
