"""Robust R@1: queries that find their class under every attack of an audit, those of a fixed ensemble included."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from holdfast.attacks import (
    Attacked,
    BoundGoal,
    Budget,
    EmbeddingShift,
    Goal,
    Misrank,
    NearestWrong,
    SoftMisrank,
    UntilMissed,
)
from holdfast.attacks.budget import Norm
from holdfast.audit.base import Part, Protocol
from holdfast.audit.ers import UPWARDS, usual_eps
from holdfast.audit.figures import Figures
from holdfast.audit.plan import Passes, Progress
from holdfast.audit.state import AuditState, Cost, Measured, Queue, attack_all
from holdfast.audit.subject import Subject
from holdfast.config import instantiate
from holdfast.errors import RecipeError
from holdfast.metric_info import MetricInfo
from holdfast.metrics.retrieval import Retrieval
from holdfast.robustness import ENTERS, LEAVES, ROBUST

STEPS = 30
TARGETS = 3
"""Nearest wrong classes that are aimed at."""
RESTARTS = 2
"""Random starts towards the nearest wrong image."""
TOP = 10
"""Images of a list that candidates enter or leave."""
ROUNDING = 1.01
"""How much larger an eps is still the same ball: papers print 8/255 as 0.0314."""
EUCLIDEAN = 1 / 4
"""Root mean square change of the L2 ball in parts of the largest change of the other: 0.43 at 32 pixels, 3.0 at 224."""


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """Within which ball robust R@1 is measured; its attacks have nothing to choose.

    Args:
        norm: the largest change of a pixel (`linf`), or the euclidean length of an image's change (`l2`).
        eps: in pixel units. When left out, that of the protocol where it was asked for in pixels, else 8/255 (77/255
            for images of 28 pixels); for `l2`, a quarter of that as root mean square change.
    """

    norm: Norm = "linf"
    eps: float | None = None

    def __post_init__(self) -> None:
        if self.norm not in ("linf", "l2"):
            raise RecipeError(f"the norm of robust R@1 is linf or l2, got '{self.norm}'")
        if self.eps is not None and not 0 < self.eps <= (1 if self.norm == "linf" else 1e6):
            raise RecipeError(f"the eps of robust R@1 must be above 0, and 1 at most for linf, got {self.eps:g}")

    def budget(self, subject: Subject, asked: float | None) -> Budget:
        """APGD in its ball.

        Args:
            subject: the model and its images.
            asked: the eps of the protocol, where it was given in pixels.
        """
        eps = self.eps
        if eps is None:
            eps = asked or usual_eps(subject.size)
            eps *= 1 if self.norm == "linf" else EUCLIDEAN * math.sqrt(3) * subject.size
        return apgd(subject, eps, self.norm)


def apgd(subject: Subject, eps: float, norm: Norm = "linf") -> Budget:
    """APGD from the image, as the ensemble takes it."""
    return subject.paced(Budget(eps=eps, steps=STEPS, norm=norm, method="apgd"))


@dataclasses.dataclass(frozen=True)
class Member:
    """One attack of the ensemble.

    Args:
        name: of the attack.
        goal: what it minimises.
        budget: how far, and from where.
        search: it draws instead of following gradients.
    """

    name: str
    goal: Goal
    budget: Budget
    search: bool = False

    def passes(self, subject: Subject) -> Passes:
        """What it takes at most for one image."""
        return subject.search_passes if self.search else subject.passes(self.budget)

    def bind(self, subject: Subject) -> BoundGoal:
        """Its goal for the attacked images of a subject."""
        return self.goal.bind(subject.references, subject.rows, subject.generator("targets", self.name))


def together(attacks: Sequence[Member], images: int, most: int) -> int:
    """How many of some attacks, the first ones, can go through the model in the same passes: those of one budget.

    Args:
        attacks: in turn.
        images: that each is for.
        most: images of a pass.
    """
    first = attacks[0]
    alike = itertools.takewhile(lambda other: not other.search and other.budget == first.budget, attacks)
    return max(1, min(len(list(alike)), most // images))


def run_together(
    subject: Subject, attacks: Mapping[Member, BoundGoal], block: slice, left: Tensor | None = None
) -> list[Attacked]:
    """What attacks on the same images come to, which go through the model in the same passes; a search goes alone.

    Args:
        subject: the model and its images.
        attacks: with what `bind` gave each, perhaps until it is reached.
        block: which images.
        left: positions within the block of those that are attacked; all when left out.
    """
    rows, goals = subject.rows[block], [goal.take(block) for goal in attacks.values()]
    if left is not None:
        rows, goals = rows[left], [goal.take(left) for goal in goals]
    images, first = subject.images(rows), next(iter(attacks))
    generator = subject.generator("start", *(member.name for member in attacks), block.start)
    if first.search:
        return [subject.search(images, goal, first.budget, generator) for goal in goals]
    return subject.attack_together(images, goals, first.budget, generator)


def members(subject: Subject, budget: Budget) -> list[Member]:
    """The attacks on a query, those that break most for their passes first; without gradients the random search alone.

    Args:
        subject: the model and its images.
        budget: APGD from the image.
    """
    search = [Member("square", Misrank(), budget, search=True)] if budget.norm == "linf" else []
    if not subject.differentiable:
        return search
    again = dataclasses.replace(budget, start="uniform")
    classes = range(1, min(TARGETS, len(torch.unique(subject.references.labels)) - 1) + 1)
    return [
        Member("apgd-misrank", Misrank(), budget),
        Member("apgd-soft-misrank", SoftMisrank(), budget),
        *(Member(f"apgd-target-{rank}", NearestWrong(rank), budget) for rank in classes),
        Member("apgd-misrank-again", Misrank(), again),
        *(Member(f"apgd-gtm-{turn}", NearestWrong(), again) for turn in range(1, RESTARTS + 1)),
        Member("apgd-es", EmbeddingShift(), budget),
        *search,
    ]


def _passes(attacks: Sequence[Member], subject: Subject) -> Passes:
    """What some attacks take at most for one image."""
    return sum((member.passes(subject) for member in attacks), Passes())


def _digest(rows: Tensor) -> str:
    """Of which images; blocks of a killed audit are those of the same ones, and of no others."""
    return hashlib.sha256(rows.numpy().tobytes()).hexdigest()[:8]


def _eps(part: Part) -> float:
    """How far a part goes."""
    return part.budget.eps if part.budget else math.inf


class Robust:
    """Robust R@1 of one audit, and how often one changed gallery image enters or leaves the first ten.

    A query is robust if it finds its class first when clean, under every attack of the protocol that changed it alone
    within the ball, under every member of the ensemble, which attacks what is left by then, and under every probe for
    masked gradients. Gallery images are attacked likewise: APGD moves those that the protocol's own attacks left.

    Args:
        ensemble: the ball.
        protocol: whose attacks count too.
        subject: what is attacked.
        parts: the protocol's attacks.
    """

    def __init__(self, ensemble: Ensemble, protocol: Protocol, subject: Subject, parts: Sequence[Part]) -> None:
        self.subject, self.budget = subject, ensemble.budget(subject, protocol.pixel_eps)
        self.members = members(subject, self.budget)
        if not self.members:
            raise RecipeError("robust R@1 within an L2 ball needs gradients, which this model does not give; use linf")
        inside = sorted((part for part in parts if part.budget and self._within(part.budget)), key=_eps)
        self.counted = [part.name for part in inside if part.name not in UPWARDS]
        full = [part for part in inside if _eps(part) * ROUNDING >= self.budget.eps]
        self.moved_before = [name for name in UPWARDS if name in {part.name for part in full}]
        if any(part.exhaustive for part in full):
            self.members = []
        self.hit = torch.empty(0)
        self.broken_by: dict[str, int] = {}
        self.cost = Cost(0.0, Passes())

    def _within(self, budget: Budget) -> bool:
        return budget.norm == self.budget.norm and budget.eps <= self.budget.eps * ROUNDING

    def passes(self, falls: bool = False) -> Passes:
        """What all of it takes at most for one image; `falls` where the first member will break nearly every one."""
        attacks = _passes(self.members[:1] if falls else self.members, self.subject)
        known = len(self.moved_before) if falls or not self.subject.differentiable else 0
        return attacks + self.subject.passes(self.budget) * (len(UPWARDS) - known)

    def attack(self, measured: dict[str, Measured], state: AuditState | None, progress: Progress) -> None:
        """Attack what the protocol left, and keep the outcome under `robust` beside its measurements.

        Args:
            measured: what the protocol's attacks came to; the best of all attacks on candidates is added.
            state: where blocks are kept; the main process alone has one.
            progress: counts the passes.
        """
        self._attack_candidates(measured, state, progress)
        subject, everyone = self.subject, torch.arange(len(self.subject.rows))
        clean = subject.references.embedded(subject.references.clean(subject.rows), subject.rows)
        self.hit = Retrieval((1,)).per_query(clean)["R@1"].cpu()
        by = torch.full((len(self.hit),), -1)
        for name in self.counted:
            by[self._count(name, everyone, measured[name]["hit"])] = len(self.broken_by) - 1
        waiting = self.members
        while waiting:
            left = (self.hit > 0).nonzero().squeeze(1)
            number = together(waiting, len(left), subject.filled) if len(left) else len(waiting)
            turn, (now, waiting) = len(self.members) - len(waiting) + 1, (waiting[:number], waiting[number:])
            progress.skip(_passes(now, subject) * (len(everyone) - len(left)))
            if len(left):
                words = f"ensemble {turn} of {len(self.members)}, {now[0].name}"
                found = self._attack_left(now, left, state, progress, words)
                for member in now:
                    by[self._count(member.name, left, found[member.name])] = len(self.broken_by) - 1
        measured["robust"] = {"hit": self.hit, "by": by}

    def count_probes(self, broken: Mapping[str, Tensor], eps: float, measured: dict[str, Measured]) -> None:
        """Count what probes for masked gradients broke, too; those that broke nothing more are not named.

        Args:
            broken: probe → positions of the queries that it broke.
            eps: largest change of a pixel.
            measured: of the audit.
        """
        if not self._within(Budget(eps=eps)):
            return
        for name, rows in broken.items():
            if bool((self.hit[rows] > 0).any()):
                new = self._count(name, rows, torch.zeros(len(rows)))
                measured["robust"]["by"][new] = len(self.broken_by) - 1

    def _count(self, name: str, rows: Tensor, hits: Tensor) -> Tensor:
        """Remember which of some queries an attack breaks that were whole so far, and return them."""
        broken = rows[(self.hit[rows] > 0) & (hits == 0)]
        self.hit[broken] = 0
        self.broken_by[name] = len(broken)
        return broken

    def _attack_left(
        self, attacks: Sequence[Member], left: Tensor, state: AuditState | None, progress: Progress, words: str
    ) -> Measured:
        """Whether each of some queries holds under members that attack in the same passes, by their names."""
        subject = dataclasses.replace(self.subject, rows=self.subject.rows[left.to(self.subject.rows.device)])
        rows = subject.references.rows(subject.rows)
        goals = {member: UntilMissed(member.bind(subject), subject.references, rows) for member in attacks}
        names = [member.name for member in attacks]

        def attack(block: slice) -> dict[str, Tensor]:
            found = run_together(subject, goals, block)
            return {name: one.measures["hit"] for name, one in zip(names, found, strict=True)}

        part = Part(f"ensemble/{'+'.join(names)}/{_digest(left)}", attack, passes=_passes(attacks, subject))
        return self._run(part, subject, state, progress, words)

    def _attack_candidates(self, measured: dict[str, Measured], state: AuditState | None, progress: Progress) -> None:
        """Those that the protocol left, or all; where both go by random search it is not repeated."""
        for name, upwards in UPWARDS.items():
            left = torch.arange(len(self.subject.rows))
            if name in self.moved_before:
                place = measured[name]["place"].clone()
                if self.subject.differentiable:
                    left = (~self._moved(name, place)).nonzero().squeeze(1)
                    progress.skip(self.subject.passes(self.budget) * (len(place) - len(left)))
                    if len(left):
                        again = self._attack_pairs(name, left, state, progress)["place"]
                        place[left] = (torch.minimum if upwards else torch.maximum)(place[left], again)
                clean = measured[name]["clean_place"].clone()  # what is stored shares no memory
                measured[f"ensemble/{name}"] = {"place": place, "clean_place": clean}
            else:
                measured[f"ensemble/{name}"] = self._attack_pairs(name, left, state, progress)

    def _attack_pairs(self, name: str, left: Tensor, state: AuditState | None, progress: Progress) -> Measured:
        """Where some gallery images end in the lists that they are to enter or to leave."""
        whole, chosen = self.subject, left.to(self.subject.rows.device)
        subject = dataclasses.replace(whole, rows=whole.rows[chosen])
        pairs = instantiate(Goal, name).bind(whole.references, whole.rows, whole.generator("targets", name))
        goal = pairs.take(chosen)

        def attack(block: slice) -> dict[str, Tensor]:
            generator = whole.generator("start", name, block.start)
            found = subject.attack(subject.images(subject.rows[block]), goal.take(block), self.budget, generator)
            return found.measures

        part = Part(f"ensemble/{name}/{_digest(left)}", attack, passes=whole.passes(self.budget))
        return self._run(part, subject, state, progress, f"gallery, {name}")

    def _moved(self, name: str, places: Tensor) -> Tensor:
        """Which places are what an attack on a candidate wants."""
        return places <= self.top if UPWARDS[name] else places > self.top

    def _run(self, part: Part, subject: Subject, state: AuditState | None, progress: Progress, words: str) -> Measured:
        measured, costs = attack_all(Queue.of([part], subject, Passes(), state), subject, state, progress, words)
        cost = costs[part.name]
        self.cost = Cost(self.cost.seconds + cost.seconds, self.cost.passes + cost.passes)
        return measured[part.name]

    @property
    def top(self) -> int:
        """How many images of a list count: ten, or a quarter of a small gallery."""
        return max(1, min(TOP, (len(self.subject.references) - 1) // 4))

    def describe(self) -> dict[str, MetricInfo]:
        """What its figures mean."""
        eps, linf = self.budget.eps, self.budget.norm == "linf"
        ball = f"changes of {255 * eps:.3g}/255" if linf else f"changes of length {eps:.3g}"
        robust = f"queries that find their class under every attack within {ball}, %"
        pairs = "pairs in which one changed gallery image"
        moves = {
            self._key(name): f"{pairs} {'enters' if upwards else 'leaves'} the first {self.top}, %"
            for name, upwards in UPWARDS.items()
        }
        return {
            ROBUST: MetricInfo(robust, digits=1, shown="headline", percent=True),
            **{key: MetricInfo(text, better="lower", digits=1, percent=True) for key, text in moves.items()},
        }

    def report(self, figures: Figures, measured: dict[str, Measured]) -> None:
        """Add its figures to those of the protocol, and what stands behind them."""
        figures.mean(ROBUST, self.hit, scale=100)
        for name, upwards in UPWARDS.items():
            found = measured[f"ensemble/{name}"]
            moved, was = (self._moved(name, found[key]) for key in ("place", "clean_place"))
            otherwise = f"{'every' if upwards else 'no'} clean image was among the first {self.top}"
            figures.mean(self._key(name), moved.double().masked_fill(was, torch.nan), 100, otherwise)
        figures.extra["robust"] = self.document()

    def _key(self, name: str) -> str:
        return f"{ENTERS if UPWARDS[name] else LEAVES}{self.top}"

    def document(self) -> dict[str, Any]:
        """As an audit's JSON has it."""
        passes = self.cost.passes
        return {
            "eps": self.budget.eps,
            "norm": self.budget.norm,
            "queries": int((~self.hit.isnan()).sum()),
            "broken_by": self.broken_by,
            "attacks": list(self.broken_by),
            "passes": passes.forward + passes.back,
            "seconds": round(self.cost.seconds, 2),
        }
