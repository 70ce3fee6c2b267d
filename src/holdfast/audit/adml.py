"""ADML's evaluation: triplet, alignment and uniformity attacks, on single images or on batches of the test set."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from holdfast.attacks import Budget, Goal
from holdfast.attacks.budget import Units
from holdfast.audit.base import CLEAN, PUBLISHED_BATCH, Part, Protocol, register
from holdfast.audit.cut import Cut
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
BALANCED = re.compile(r"([1-9]\d{0,3})x([1-9]\d{0,3})")
DRAWN = ("shuffled", "ordered")
DRAWS = 20
"""How often batches are drawn again where one has nothing to tell apart."""

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
    units: Units

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
    def pixel_eps(self) -> float | None:
        """As asked for, in pixels."""
        return self.eps if self.units == "pixel" else None

    @property
    def settings(self) -> dict[str, Any]:
        """The hinge, and what batches are made of."""
        return {"hinge": self.hinge, **({"batches": self.make_up.name} if self.mode == "replaced" else {})}

    def budget(self, subject: Subject) -> Budget:
        """0.0314, or as asked, in pixels."""
        printed = Budget(eps=EPS, step=STEP, steps=STEPS, units=self.units)
        return subject.paced(printed.with_eps(self.eps or EPS).in_pixels(subject.std))

    def parts(self, subject: Subject) -> list[Part]:
        """One part per objective."""
        if self.mode == "fixed":
            budget = self.budget(subject)
            parts = {name: subject.attack_on(name, goal, budget) for name, goal in self.goals.items()}
            return [Part(name, attack, budget=budget) for name, attack in parts.items()]
        refuse_queries(subject)
        if not subject.differentiable:
            raise RecipeError("mode replaced needs gradients, which this model does not give; use mode fixed")
        cut = self.make_up.cut(subject.labels[subject.rows].cpu(), subject.generator("batches"))
        return [Part(name, self._joint(subject, name, goal, cut), cut) for name, goal in self.goals.items()]

    def _joint(
        self, subject: Subject, name: str, block: dict[str, object], cut: Cut
    ) -> Callable[[slice], dict[str, Tensor]]:
        budget = self.budget(subject)
        goal: Goal = instantiate(Goal, {**block, "reference": "joint"})
        ordered = subject.rows if cut.order is None else subject.rows[cut.order.to(subject.rows.device)]

        def attack(block: slice) -> dict[str, Tensor]:
            rows = ordered[block]
            bound = goal.bind(subject.references, rows, subject.generator("targets", name, block.start))
            return {"vectors": subject.attack(subject.images(rows), bound, budget).vectors}

        return attack

    def figures(self, subject: Subject, measured: dict[str, dict[str, Tensor]]) -> Figures:
        """Clean figures, and those of each attack under its name."""
        figures = Figures(subject.seed)
        seen = {"": subject.references.clean(subject.rows)}
        seen |= {f"{name}/": stacked(measured[name], subject) for name in GOALS}
        for prefix, vectors in seen.items():
            figures.retrieval(KEYS, subject, vectors, self.mode, prefix)
            figures.clustering(f"{prefix}NMI", vectors, subject.labels[subject.rows])
        return figures


def refuse_queries(subject: Subject) -> None:
    """Replacing the whole set needs one set."""
    if subject.references.queries is not None:
        raise RecipeError(
            "mode replaced needs one set of images; this dataset has queries and a gallery: use mode fixed"
        )


@dataclasses.dataclass(frozen=True)
class MakeUp:
    """What batches are made of: `56x2` (classes × images of each), `shuffled`, or `ordered` as the data lists images.

    Args:
        name: as written.
        classes: classes in a batch; 0 where classes do not matter.
        per_class: images of each.
    """

    name: str
    classes: int = 0
    per_class: int = 0

    @classmethod
    def of(cls, name: str) -> MakeUp:
        """Read a make-up; one that cannot be had is refused."""
        found = BALANCED.fullmatch(name)
        if found is None and name not in DRAWN:
            raise RecipeError(f"batches: expected 56x2 (classes × images), 28x4, shuffled or ordered, got '{name}'")
        classes, per_class = (int(number) for number in found.groups()) if found else (0, 0)
        if found and (classes < 2 or per_class < 2):
            raise RecipeError(f"batches: {name} leaves images without a positive or a negative; take 2x2 or more")
        return cls(name, classes, per_class)

    @property
    def size(self) -> int:
        """Images in a batch."""
        return self.classes * self.per_class or PUBLISHED_BATCH

    def cut(self, labels: Tensor, generator: Generator) -> Cut:
        """Batches of all images, each in one of them.

        A batch without any positive pair, or without any negative one, gives attacks on classes no gradient. The last,
        which may be small, then joins the one before; else batches are drawn again, and refused where that does not
        help.

        Args:
            labels: class of each image.
            generator: of the draws.
        """
        for _ in range(1 if self.name == "ordered" else DRAWS):
            order = self._order(labels, generator)
            cut = Cut.every(self.size, len(order), order)
            if len(cut.blocks) > 1 and _lack(labels[order[cut.blocks[-1]]]):
                cut.blocks[-2:] = [slice(cut.blocks[-2].start, len(order))]
            lacking = {lack for block in cut.blocks if (lack := _lack(labels[order[block]]))}
            if not lacking:
                return cut
        raise RecipeError(
            f"batches: {self.name} makes a batch of {self.size} without any {' or '.join(sorted(lacking))} pair, which "
            "attacks on classes cannot move; give another --batches, or other images"
        )

    def _order(self, labels: Tensor, generator: Generator) -> Tensor:
        if self.name == "ordered":
            return torch.arange(len(labels))
        if self.name == "shuffled":
            return torch.randperm(len(labels), generator=generator)
        return _balanced(labels, self.classes, self.per_class, generator)


def _balanced(labels: Tensor, classes: int, per_class: int, generator: Generator) -> Tensor:
    """Again and again some images each of those classes that have most left, so that classes run out together."""
    mixed = torch.randperm(len(labels), generator=generator)
    left: dict[int, list[int]] = {}
    for row, label in zip(mixed.tolist(), labels[mixed].tolist(), strict=True):
        left.setdefault(label, []).append(row)
    order: list[int] = []
    while left:
        names = list(left)
        ties = torch.rand(len(names), generator=generator).tolist()
        ranked = sorted(zip(names, ties, strict=True), key=lambda pair: (-len(left[pair[0]]), pair[1]))
        for name, _ in ranked[:classes]:
            order += left[name][:per_class]
            left[name] = left[name][per_class:]
            if not left[name]:
                del left[name]
    return torch.tensor(order)


def _lack(labels: Tensor) -> str | None:
    """Which kind of pair a batch has none of."""
    classes = len(torch.unique(labels))
    return "negative" if classes == 1 else "positive" if classes == len(labels) else None
