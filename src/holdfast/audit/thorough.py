"""The worst case of each query: many attacks, several eps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from holdfast.attacks import Alignment, Budget
from holdfast.audit.base import CLEAN, Cut, Part, Protocol, register
from holdfast.audit.ensemble import Member, apgd, members
from holdfast.audit.figures import Figures
from holdfast.audit.plan import Passes
from holdfast.audit.subject import Subject
from holdfast.metric_info import MetricInfo
from holdfast.metrics.retrieval import Retrieval

EPS = (1 / 255, 2 / 255, 4 / 255, 8 / 255, 16 / 255)
BLOCK = 64
HALVINGS = 8
"""Bisections of the line from the image to its adversary; the smallest breaking ε is known to a 256th of eps."""


@register("thorough")
class Thorough(Protocol):
    """The worst of many attacks on each query: R@1 and mAP@R against ε, and the smallest ε that breaks a query.

    Every attack of the ensemble behind robust R@1, on every query and to its last step; APGD away from the own class,
    from the image and from a random start. A query counts as broken as soon as one of them breaks it, at this ε or at a
    smaller one. Without gradients only the random search runs.

    Args:
        mode: `fixed`.
        eps: the largest, in pixel units; the others are a half, a quarter, an eighth and a sixteenth of it.

    Requirements: labels, two or more images per class. Costs about eight `ers` audits: use a limit.
    Relations: robust R@1, part of every audit, is the worst case at one ε, without mAP@R and for less.
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
        return apgd(subject, self.all_eps()[-1])

    def passes(self, subject: Subject) -> Passes:
        """Every attack, and the way back to the smallest eps."""
        attacks = (member.passes(subject) for member in _suite(subject, self.budget(subject)))
        return sum(attacks, Passes(forward=HALVINGS + 2))

    def parts(self, subject: Subject) -> list[Part]:
        """One part per eps."""
        cut = Cut.every(BLOCK, len(subject.rows))
        budgets = {label(eps): apgd(subject, eps) for eps in self.all_eps()}
        return [Part(name, self._attack(subject, budget), cut, budget=budget) for name, budget in budgets.items()]

    def _attack(self, subject: Subject, budget: Budget) -> Callable[[slice], dict[str, Tensor]]:
        suite = [(member, member.bind(subject)) for member in _suite(subject, budget)]

        def attack(block: slice) -> dict[str, Tensor]:
            rows = subject.rows[block]
            tried = [member.run(subject, goal, block) for member, goal in suite]
            scores = [Retrieval((1,)).per_query(subject.references.embedded(r.vectors, rows)) for r in tried]
            hits = torch.stack([score["R@1"] for score in scores])
            precision = torch.stack([score["mAP@R"] for score in scores])
            worst = (hits + precision).argmin(0)
            chosen = torch.stack([result.images for result in tried])[worst, torch.arange(len(rows))]
            needed = smallest_eps(subject, subject.images(rows), chosen, rows)
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


def _suite(subject: Subject, budget: Budget) -> list[Member]:
    """The attacks, the random search last."""
    again = dataclasses.replace(budget, start="uniform")
    more = [Member("alignment", Alignment(), budget), Member("alignment-again", Alignment(), again)]
    return [*(more if subject.differentiable else []), *members(subject, budget)]


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
