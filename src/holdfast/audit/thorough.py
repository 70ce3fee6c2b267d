"""The worst case of each query: many attacks, several eps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from holdfast import attacks
from holdfast.attacks import Attacked, BoundGoal, Budget
from holdfast.audit.base import CLEAN, Cut, Part, Protocol, register
from holdfast.audit.figures import Figures
from holdfast.audit.plan import Passes
from holdfast.audit.subject import Subject
from holdfast.metric_info import MetricInfo
from holdfast.metrics.retrieval import Retrieval

EPS = (1 / 255, 2 / 255, 4 / 255, 8 / 255, 16 / 255)
GOALS = ("misrank", "alignment", "es")
TARGETS = 3
STEPS = 30
RESTARTS = 2
BLOCK = 64
HALVINGS = 8
"""Bisections of the line from the image to its adversary; the smallest breaking ε is known to a 256th of eps."""


@register("thorough")
class Thorough(Protocol):
    """The worst of many attacks on each query: R@1 and mAP@R against ε, and the smallest ε that breaks a query.

    APGD on three goals, from the image and from a random start; APGD towards the nearest image of each of the three
    nearest other classes; random search without gradients. A query counts as broken as soon as one of them breaks it,
    at this ε or at a smaller one. Without gradients only the random search runs.

    Args:
        mode: `fixed`.
        eps: the largest, in pixel units; the others are a half, a quarter, an eighth and a sixteenth of it.

    Requirements: labels, two or more images per class. Costs about thirty times one ERS attack: use a limit.
    Relations: `ers` asks how far each aim is reached on average; this asks whether anything works.
    Reference: after Croce and Hein, ICML 2020.
    """

    def describe(self) -> dict[str, MetricInfo]:
        """The worst case at the largest eps, and the smallest eps that breaks a query."""
        worst = MetricInfo("R@1 when the best of many attacks counts, %", "worst case", digits=1, column="R@1")
        breaks = MetricInfo("median change per pixel that breaks a query, /255", "breaks at", digits=1, scale=255)
        return {"R@1": CLEAN, f"{label(self.all_eps()[-1])} R@1": worst, "breaking_eps": breaks}

    def all_eps(self) -> tuple[float, ...]:
        """Every eps, smallest first."""
        factor = 1.0 if self.eps is None else self.eps / EPS[-1]
        return tuple(factor * eps for eps in EPS)

    def budget(self, subject: Subject) -> Budget:
        """APGD at the largest eps."""
        return _starts(subject, self.all_eps()[-1])[0]

    def passes(self, subject: Subject) -> Passes:
        """Every attack, the random search, and the way back to the smallest eps."""
        searched = subject.search_passes + Passes(forward=HALVINGS + 2)
        if not subject.differentiable:
            return searched
        attacks_made = RESTARTS * len(GOALS) + _targets(subject)
        return searched + subject.passes(self.budget(subject)) * attacks_made

    def parts(self, subject: Subject) -> list[Part]:
        """One part per eps."""
        suite = self._suite(subject)
        cut = Cut.every(BLOCK, len(subject.rows))
        return [Part(label(eps), self._attack(subject, suite, eps), cut) for eps in self.all_eps()]

    def _suite(self, subject: Subject) -> list[tuple[str, BoundGoal]]:
        """The gradient attacks by name, bound to all attacked images."""
        goals = [(name, attacks.build(name)) for name in GOALS]
        ranks = range(1, _targets(subject) + 1)
        goals += [(f"target-{rank}", attacks.build("nearest-wrong", rank=rank)) for rank in ranks]
        return [
            (name, goal.bind(subject.references, subject.rows, subject.generator("targets", name)))
            for name, goal in goals
        ]

    def _attack(
        self, subject: Subject, suite: Sequence[tuple[str, BoundGoal]], eps: float
    ) -> Callable[[slice], dict[str, Tensor]]:
        starts = _starts(subject, eps)
        margin = suite[0][1]

        def attack(block: slice) -> dict[str, Tensor]:
            rows = subject.rows[block]
            images = subject.images(rows)
            tried: list[Attacked] = []
            if subject.differentiable:
                for name, goal in suite:
                    for number, budget in enumerate(starts if not name.startswith("target") else starts[:1]):
                        generator = subject.generator("start", name, number, block.start)
                        tried.append(subject.attack(images, goal.take(block), budget, generator))
            generator = subject.generator("square", block.start)
            tried.append(subject.search(images, margin.take(block), starts[0], generator))
            scores = [Retrieval((1,)).per_query(subject.references.embedded(r.vectors, rows)) for r in tried]
            hits = torch.stack([score["R@1"] for score in scores])
            precision = torch.stack([score["mAP@R"] for score in scores])
            worst = (hits + precision).argmin(0)
            chosen = torch.stack([result.images for result in tried])[worst, torch.arange(len(rows))]
            needed = smallest_eps(subject, images, chosen, rows)
            return {
                "hit": hits.amin(0),
                "precision": precision.amin(0),
                "hit_by_gradient": hits[:-1].amin(0) if len(tried) > 1 else torch.full_like(hits[0], torch.nan),
                "hit_by_search": hits[-1],
                "radius": needed,
            }

        return attack

    def figures(self, subject: Subject, measured: dict[str, dict[str, Tensor]]) -> Figures:
        """R@1 and mAP@R at every eps, and the median of the smallest eps that breaks a query."""
        figures = Figures(subject.seed)
        figures.clean(subject, ("R@1", "mAP@R"))
        curve = [{"eps": 0.0, "R@1": figures.values["R@1"], "mAP@R": figures.values["mAP@R"]}]
        worst = dict.fromkeys(("hit", "precision", "radius"), torch.tensor(torch.nan))
        for eps in self.all_eps():
            # What breaks a query within a small ball also breaks it within a larger one; fmin passes over NaN.
            worst = {name: torch.fmin(values, measured[label(eps)][name]) for name, values in worst.items()}
            figures.mean(f"{label(eps)} R@1", worst["hit"], scale=100)
            figures.mean(f"{label(eps)} mAP@R", worst["precision"], scale=100)
            keys = {key: figures.values[f"{label(eps)} {key}"] for key in ("R@1", "mAP@R")}
            curve.append({"eps": eps, **keys})
        figures.extra["curve"] = curve
        figures.median("breaking_eps", worst["radius"], "more than half of the queries hold at the largest eps")
        return figures


def _starts(subject: Subject, eps: float) -> list[Budget]:
    """APGD from the image, then from random starts."""
    first = subject.paced(Budget(eps=eps, steps=STEPS, method="apgd"))
    return [first, *[dataclasses.replace(first, start="uniform")] * (RESTARTS - 1)]


def _targets(subject: Subject) -> int:
    """How many other classes are aimed at."""
    return min(TARGETS, len(torch.unique(subject.references.labels)) - 1)


def label(eps: float) -> str:
    """How an eps is written in keys."""
    return f"eps={255 * eps:g}/255"


@torch.no_grad()
def smallest_eps(subject: Subject, images: Tensor, adversaries: Tensor, rows: Tensor) -> Tensor:
    """For each query, the shortest part of its perturbation that still breaks it; infinite where the whole does not.

    Zero for queries that are wrong without any perturbation, NaN for those that have no positive in the gallery.
    """
    change = adversaries - images
    low, high = torch.zeros(len(images)), torch.ones(len(images))

    def holds(fraction: Tensor) -> Tensor:
        adversarial = images + fraction.to(images).view(-1, 1, 1, 1) * change
        data = subject.references.embedded(subject.encode(adversarial), rows)
        return Retrieval((1,)).per_query(data)["R@1"].cpu()

    clean, whole = holds(low), holds(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fine = holds(middle) > 0
        low, high = torch.where(fine, middle, low), torch.where(fine, high, middle)
    length = change.flatten(1).abs().amax(1).cpu()
    needed = torch.where(whole > 0, torch.inf, high * length).double()
    needed = torch.where(clean == 0, 0.0, needed)
    return torch.where(clean.isnan(), torch.nan, needed)
