"""The worst case of each query: many attacks, several eps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from holdfast.attacks import Alignment, Attacked, BoundGoal, Budget, UntilMissed
from holdfast.audit.base import CLEAN, Part, Protocol, register
from holdfast.audit.ensemble import Member, apgd, members, run_together, together
from holdfast.audit.figures import Figures
from holdfast.audit.plan import Passes
from holdfast.audit.subject import Subject
from holdfast.metric_info import MetricInfo
from holdfast.metrics.retrieval import Retrieval

EPS = (1 / 255, 2 / 255, 4 / 255, 8 / 255, 16 / 255)
NEAREST = 4
"""Attacks, those that break most first, that a query sees to their last step at the smallest eps that breaks it."""
HALVINGS = 8
"""Bisections of the line from the image to its adversary; the smallest breaking ε is known to a 256th of eps."""


@register("thorough")
class Thorough(Protocol):
    """The worst of many attacks on each query: R@1 and mAP@R against ε, and the smallest ε that breaks a query.

    APGD away from the own class, on every query and to its last step, at every ε; on queries that hold, every attack of
    the ensemble behind robust R@1 and the first one from a random start, until one breaks them; on those that break and
    are not known to at the next smaller ε, four of them to their last step. The largest ε comes first: a query that
    holds there holds at every smaller one, and one that breaks is broken wherever a part of its perturbation suffices.
    Without gradients only the random search runs.

    Args:
        mode: `fixed`.
        eps: the largest, in pixel units; the others are a half, a quarter, an eighth and a sixteenth of it.

    Requirements: labels, two or more images per class. Costs about two `ers` audits.
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
        """At each eps the attack on the whole list; the others once for all eps, and the nearest ones once more."""
        first, *others = (member.passes(subject) for member in suite(subject, self.budget(subject)))
        once, times = sum(others[:NEAREST], sum(others, Passes())), len(self.all_eps())
        lines = HALVINGS + HALVINGS * len(others[:NEAREST]) // times
        return first + Passes(forward=lines + once.forward // times, back=once.back // times)

    def parts(self, subject: Subject) -> list[Part]:
        """One part per eps, the largest first: what holds there is not attacked any more at smaller ones."""
        budgets = [apgd(subject, eps) for eps in reversed(self.all_eps())]
        after = [None, *(label(budget.eps) for budget in budgets)]
        return [
            Part(label(budget.eps), self._attack(subject, budget), budget=budget, after=larger, exhaustive=True)
            for budget, larger in zip(budgets, after, strict=False)
        ]

    def _attack(self, subject: Subject, budget: Budget) -> Callable[..., dict[str, Tensor]]:
        references, eps = subject.references, budget.eps
        next_eps = eps / 2 if eps > self.all_eps()[0] else 0.0
        rows = references.rows(subject.rows)
        (first, whole), *bound = ((member, member.bind(subject)) for member in suite(subject, budget))
        until = {member: UntilMissed(goal, references, rows) for member, goal in bound}

        def attack(block: slice, larger: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
            known = SmallestFound(subject, block)
            undecided = torch.ones_like(known.radius, dtype=torch.bool)
            if larger is not None:
                known.radius = known.radius.fmin(larger["radius"])
                undecided = larger["radius"].isfinite()
            known.attack({first: whole}, lambda: ~known.radius.isnan())
            known.attack(until, lambda: undecided & (known.radius > eps))
            known.attack(dict(bound[:NEAREST]), lambda: (known.radius > next_eps) & (known.radius <= eps))
            radius = known.radius.masked_fill(known.radius > eps, torch.inf)
            hit = radius.isinf().double().masked_fill(radius.isnan(), torch.nan)
            return {"hit": hit, "precision": known.precision, "radius": radius}

        return attack

    def figures(self, subject: Subject, measured: dict[str, dict[str, Tensor]]) -> Figures:
        """R@1 and mAP@R at every eps, and the median of the smallest eps that breaks a query."""
        figures = Figures(subject.seed)
        figures.clean(subject, ("R@1", "mAP@R"))
        curve = [{"eps": 0.0, "R@1": figures.values["R@1"], "mAP@R": figures.values["mAP@R"]}]
        worst = dict.fromkeys(("hit", "precision", "radius"), torch.tensor(torch.nan))
        for eps in self.all_eps():
            # What breaks a query within a small ball also breaks it within a larger one; fmin skips NaN.
            worst = {name: torch.fmin(values, measured[label(eps)][name]) for name, values in worst.items()}
            figures.mean(f"{label(eps)} R@1", worst["hit"], scale=100)
            figures.mean(f"{label(eps)} mAP@R", worst["precision"], scale=100)
            keys = {key: figures.values[f"{label(eps)} {key}"] for key in ("R@1", "mAP@R")}
            curve.append({"eps": eps, **keys})
        figures.extra["curve"] = curve
        figures.median("breaking_eps", worst["radius"], "more than half of the queries hold at the largest eps")
        return figures


class SmallestFound:
    """What attacks have come to on a block of queries: the smallest mAP@R, and the smallest eps that breaks each.

    Args:
        subject: the model and its images.
        block: which of them.
    """

    def __init__(self, subject: Subject, block: slice) -> None:
        self.subject, self.block, self.rows = subject, block, subject.rows[block]
        clean = subject.references.hits(subject.references.clean(self.rows), self.rows).cpu().double()
        self.radius = torch.where(clean > 0, torch.inf, 0.0).double().masked_fill(clean.isnan(), torch.nan)
        self.precision = torch.full_like(self.radius, torch.nan)

    def attack(self, attacks: Mapping[Member, BoundGoal], which: Callable[[], Tensor]) -> None:
        """Add attacks, each on the queries that those before it have left to be attacked."""
        waiting = list(attacks)
        while waiting and len(places := which().nonzero().squeeze(1)):
            number = together(waiting, len(places), self.subject.filled)
            now, waiting = {member: attacks[member] for member in waiting[:number]}, waiting[number:]
            for found in run_together(self.subject, now, self.block, places.to(self.rows.device)):
                self._take(found, places, which()[places])

    def _take(self, found: Attacked, places: Tensor, still: Tensor) -> None:
        """Take note of what an attack on the queries at some places came to, for those that are still asked about."""
        there = still.nonzero().squeeze(1)
        if not len(there):
            return
        places, here = places[there], there.to(self.rows.device)
        rows = self.rows[places.to(self.rows.device)]
        hit, precision = scores(self.subject, found.vectors[here], rows)
        self.precision[places] = self.precision[places].fmin(precision)
        broken = (hit == 0) & (self.radius[places] > 0)
        if bool(broken.any()):
            of = broken.to(self.rows.device)
            needed = smallest_eps(self.subject, self.subject.images(rows[of]), found.images[here][of], rows[of])
            self.radius[places[broken]] = self.radius[places[broken]].fmin(needed)


def suite(subject: Subject, budget: Budget) -> list[Member]:
    """The attacks: that on the whole list, then those that break most for their passes, the random search last."""
    if not subject.differentiable:
        return members(subject, budget)
    away, again = Alignment(), dataclasses.replace(budget, start="uniform")
    *ensemble, search = members(subject, budget)
    return [Member("alignment", away, budget), *ensemble, Member("alignment-again", away, again), search]


def scores(subject: Subject, vectors: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """R@1 and mAP@R of each attacked query."""
    values = Retrieval((1,)).per_query(subject.references.embedded(vectors, rows))
    return values["R@1"].cpu(), values["mAP@R"].cpu()


def label(eps: float) -> str:
    """How an eps is written in keys."""
    return f"eps={255 * eps:g}/255"


@torch.no_grad()
def smallest_eps(subject: Subject, images: Tensor, adversaries: Tensor, rows: Tensor) -> Tensor:
    """For queries that their perturbation breaks, the length of its shortest part that still does."""
    change = adversaries - images
    low, high = torch.zeros(len(images)), torch.ones(len(images))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        adversarial = images + middle.to(images).view(-1, 1, 1, 1) * change
        holds = subject.references.hits(subject.encode(adversarial), rows).cpu() > 0
        low, high = torch.where(holds, middle, low), torch.where(holds, high, middle)
    length = (adversaries.double() - images.double()).flatten(1).abs().amax(1)
    return high.double() * length.cpu()
