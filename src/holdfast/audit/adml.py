"""ADML's evaluation: triplet, alignment and uniformity attacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor

from holdfast.attacks import Budget, Goal
from holdfast.attacks.budget import Units
from holdfast.audit.base import CLEAN, Part, Protocol, register
from holdfast.audit.batches import Cut, MakeUp
from holdfast.audit.figures import Figures, stacked
from holdfast.audit.subject import Subject
from holdfast.config import instantiate
from holdfast.errors import RecipeError
from holdfast.metric_info import MetricInfo, percentage

EPS, STEP, STEPS = 0.0314, 0.007, 7
MARGIN = 0.2
"""Of the triplet loss that is attacked."""
BATCHES = "56x2"
"""How the paper's framework makes class-balanced batches of 112."""

GOALS = {
    "triplet": percentage("R@1 when the loss of one triplet per image is raised, %", title="ADML triplet"),
    "alignment": percentage("R@1 of images pushed away from their class, %", title="ADML align."),
    "uniformity": percentage("R@1 of images pulled to all other classes, %", title="ADML unif."),
}
"""Each attack, and what its R@1 means."""
KEYS = ("R@1", "mAP@C")


@register("adml")
class Adml(Protocol):
    """Triplet, alignment and uniformity attacks: R@1, NMI and mAP@C before and after.

    7 steps of 0.007 with eps 0.0314. The triplet attack maximises the loss as printed, with its hinge of 0.2, so
    that images whose drawn triplet is satisfied do not change. `fixed` attacks each query against the clean gallery;
    `replaced` attacks class-balanced batches of 112 together and replaces the whole set, which can make an attack look
    like a gain. What a batch is made of decides more than the attack does: the paper says that its batches are
    class-balanced, and no more.

    Args:
        mode: `fixed` or `replaced`.
        eps: in the given units; the step keeps its proportion.
        units: of eps: `pixel`, or `normalized`, divided by the model's mean pixel deviation (0.226 for ImageNet
            models; tensors that are normalised channel by channel differ from that by 2 %). The paper does not say
            which it means.
        batches: `replaced` only: `56x2` (when left out), `28x4` or any other number of classes and images of each,
            `shuffled`, or `ordered` as the data lists the images.
        hinge: of the triplet attack; without it every triplet counts.

    Requirements: labels, two or more images per class.
    Relations: `ers` aims at ranks instead of classes.
    Reference: ADML, Tables 1 and 4.
    """

    modes: ClassVar[tuple[str, ...]] = ("fixed", "replaced")

    def __init__(
        self,
        mode: str = "fixed",
        eps: float | None = None,
        units: Units = "pixel",
        batches: str | None = None,
        hinge: bool = True,
    ) -> None:
        super().__init__(mode, eps)
        if batches is not None and mode != "replaced":
            raise RecipeError("batches matter in mode replaced alone; give --mode replaced, or leave them out")
        self.units = units
        self.make_up = MakeUp.of(batches or BATCHES)
        self.hinge = hinge
        self.goals: dict[str, dict[str, object]] = {name: {"name": name} for name in GOALS}
        self.goals["triplet"]["margin"] = MARGIN if hinge else None

    def describe(self) -> dict[str, MetricInfo]:
        """R@1 under each attack."""
        return {"R@1": CLEAN} | {f"{name}/R@1": info for name, info in GOALS.items()}

    @property
    def settings(self) -> dict[str, Any]:
        """The hinge, and what batches are made of."""
        return {"hinge": self.hinge, **({"batches": self.make_up.name} if self.mode == "replaced" else {})}

    def budget(self, subject: Subject) -> Budget:
        """0.0314, or as asked, in pixels."""
        printed = Budget(eps=EPS, step=STEP, steps=STEPS, units=self.units)
        return printed.with_eps(self.eps or EPS).in_pixels(subject.std)

    def parts(self, subject: Subject) -> list[Part]:
        """One part per objective."""
        if self.mode == "fixed":
            budget = self.budget(subject)
            return [Part(name, subject.attack_on(name, goal, budget)) for name, goal in self.goals.items()]
        refuse_queries(subject)
        if not subject.differentiable:
            raise RecipeError("mode replaced needs gradients, which this model does not give; use mode fixed")
        cut = self.make_up.cut(subject.labels[subject.rows].cpu(), subject.generator("batches"))
        return [Part(name, self._joint(subject, name, goal, cut), cut=cut) for name, goal in self.goals.items()]

    def _joint(
        self, subject: Subject, name: str, block: dict[str, object], cut: Cut
    ) -> Callable[[slice], dict[str, Tensor]]:
        budget = self.budget(subject)
        goal: Goal = instantiate(Goal, {**block, "reference": "joint"})

        def attack(block: slice) -> dict[str, Tensor]:
            rows = subject.rows[cut.order[block].to(subject.rows.device)]
            bound = goal.bind(subject.references, rows, subject.generator("targets", name, block.start))
            return {"vectors": subject.attack(subject.images(rows), bound, budget).vectors}

        return attack

    def figures(self, subject: Subject, measured: dict[str, dict[str, Tensor]]) -> Figures:
        """Clean figures, and those of each attack under its name."""
        figures = Figures(subject.seed)
        clean = figures.clean(subject, KEYS, self.mode)
        labels = subject.labels[subject.rows]
        figures.clustering("NMI", clean, labels)
        for name in GOALS:
            vectors = stacked(measured[name], subject)
            figures.retrieval(KEYS, subject, vectors, self.mode, f"{name}/")
            figures.clustering(f"{name}/NMI", vectors, labels)
        return figures


def refuse_queries(subject: Subject) -> None:
    """Replacing the whole set needs one set."""
    if subject.references.queries is not None:
        raise RecipeError(
            "mode replaced needs one set of images; this dataset has queries and a gallery: use mode fixed"
        )
