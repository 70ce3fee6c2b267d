"""Attacks on a few queries of an audited model, by its own gradient and by others."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

from holdfast import attacks
from holdfast.attacks import Budget, craft, square
from holdfast.attacks.ball import Ball
from holdfast.attacks.budget import Method
from holdfast.attacks.forward import Attacked, Forward, judge
from holdfast.attacks.unmasked import CUTS
from holdfast.audit.plan import Passes, Progress
from holdfast.audit.sampling import balanced_rows
from holdfast.audit.subject import HURRY, Subject

T = TypeVar("T")

IMAGES = 40
STEPS = 8
COPIES = 2
"""Noisy copies of an image at each step."""
QUERIES = 60
DIRECTIONS = 3
FARTHER = 1.25
"""How many times as far as by the model's own gradient an attack must get before that is masked."""
CHANCE = 0.01
"""How likely its advantage may be, image by image, if both gradients were as good."""
SLOPE = 5.0
"""How many times as much, or as little, as its gradient says may change along it before that is no gradient of it."""
SHORTER = (1, 1 / 4, 1 / 16, 1 / 64)
"""Lengths of short steps along a gradient."""
OWN, STEADY, UNMASKED, FORCE = "own gradient", "own gradient, momentum", "no mask", "large eps"
CAUSES, REPORTED, SLOPES = "causes", "reported attack", "slopes"
LONG = ("blurred", STEADY, "noise", "noise, no mask", "one step", FORCE, "finite differences", "random search")
"""Probes of models that hold, where nothing was found at once."""
EXPLAIN = (CAUSES, REPORTED, SLOPES)
"""Attacks that follow where something was found; the long probes, which then do not, take more."""


@dataclasses.dataclass(frozen=True)
class ProbeOutcome:
    """What an attack did to the probed queries.

    Args:
        left: which still find their class.
        reached: by how much each lost its margin over the nearest wrong item.
    """

    left: Tensor
    reached: Tensor

    def beats(self, other: ProbeOutcome) -> bool:
        """Whether it got clearly farther than another attack on the same queries: in sum, and image by image."""
        farther = float(self.reached.sum()) > FARTHER * max(float(other.reached.sum()), 0.0)
        tie = 0.02 * float(self.reached.abs().mean())
        ahead = int((self.reached > other.reached + tie).sum())
        behind = int((other.reached > self.reached + tie).sum())
        return farther and _by_chance(ahead, ahead + behind) <= CHANCE


def breaks_more(left: Tensor, before: Tensor) -> bool:
    """Whether an attack leaves clearly fewer queries than another on the same ones did."""
    only, other = int((before & ~left).sum()), int((left & ~before).sum())
    return _by_chance(only, only + other) <= CHANCE


def _by_chance(heads: int, tosses: int) -> float:
    """How likely a fair coin shows so many heads or more."""
    return sum(math.comb(tosses, k) for k in range(heads, tosses + 1)) / float(2**tosses)


def probed_rows(subject: Subject) -> Tensor:
    """Positions in `subject.rows` of the images that are probed: a seeded, class-balanced few."""
    return balanced_rows(subject.labels[subject.rows].cpu(), IMAGES, subject.seed)


def masking_passes(subject: Subject, falls: bool = False) -> Passes:
    """What all probes take at most.

    Args:
        subject: the model.
        falls: the model's own gradient will break nearly everything, and few other probes follow.
    """
    costs = _costs(subject)
    skipped = () if not subject.differentiable else (*LONG, *EXPLAIN) if falls else EXPLAIN
    each = sum((passes for name, passes in costs.items() if name not in skipped), Passes())
    return each * min(IMAGES, len(subject.rows))


def _costs(subject: Subject) -> dict[str, Passes]:
    """What each probe takes at most for one image."""
    steps, queries = steps_of(subject), _queries(subject)
    attack = Passes(forward=2, back=steps)
    search = Passes(forward=queries + 2)
    averaged = Passes(forward=1, back=COPIES * steps)
    slope = Passes(forward=2 * len(SHORTER), back=1)
    costs = {UNMASKED: attack, OWN: search, CAUSES: attack * len(CUTS)}
    costs[REPORTED] = Passes(forward=1, back=2 * steps)
    if not subject.differentiable:
        return costs
    return costs | {
        OWN: attack,
        "slope": slope,
        SLOPES: slope * len(CUTS),
        "blurred": attack,
        STEADY: Passes(forward=1, back=steps),
        "noise": averaged,
        "noise, no mask": averaged,
        "one step": Passes(forward=1, back=1),
        FORCE: attack,
        "finite differences": Passes(forward=(2 * DIRECTIONS + 1) * steps + 1),
        "random search": search,
    }


def steps_of(subject: Subject) -> int:
    """Of one attack."""
    return max(4, STEPS // HURRY) if subject.quick else STEPS


def _queries(subject: Subject) -> int:
    return QUERIES // HURRY if subject.quick else QUERIES


class Probes:
    """Attacks on a few queries that are right when clean.

    Args:
        subject: the model.
        eps: of the audit.
        reported: what the attacks of the audit left of the rows.
        progress: counts passes.
        rows: the probed images.
    """

    def __init__(
        self, subject: Subject, eps: float, reported: Mapping[str, Tensor], progress: Progress, rows: Tensor
    ) -> None:
        self.subject = subject
        self.eps = eps
        self.progress = progress
        self.costs, self.taken = _costs(subject), Passes()
        clean = subject.references.clean(rows)
        every = attacks.build("misrank").bind(subject.references, rows)
        self.right = every.measure(clean)["hit"] > 0
        self.rows, self.count = rows[self.right], len(rows)
        self.margin = every.take(self.right)
        self.clean = self.margin.loss(clean[self.right])
        self.images = subject.images(self.rows) if len(self.rows) else torch.empty(0)
        self.reported = {name: hit[self.right.cpu()] for name, hit in reported.items()}
        self.left: dict[str, Tensor] = {}

    def slope(self, module: nn.Module) -> float:
        """What a short step along a gradient changes, as a multiple of what the gradient says: the median of images.

        Near the images, not at them: a model may treat 8-bit pixels otherwise. A step that changes less than it should
        may have been too long, as many pixels together bend any network's margin; shorter ones are tried then.
        """
        few = slice(self.subject.chunk)
        margin, ball = self.margin.take(few), Ball(self.images[few], self.eps / 4, "linf")
        points = ball.start(self.eps / 4, self.subject.generator("probe-slope"))
        _, gradient = Forward(module).gradient(points, margin, first=True)
        forward, found = Forward(self.subject.model), []
        for part in SHORTER:
            change = part * min(self.eps / 8, 1 / 255) * gradient.sign()
            ends = [forward.loss((points + side * change).clamp(0, 1), margin) for side in (1, -1)]
            said = (gradient * change).flatten(1).sum(1)
            found.append(float(((ends[0] - ends[1]) / 2 / said).nan_to_num(torch.inf).median()))
            if found[-1] > 1 / SLOPE:
                break
        return max(found)

    def own(self) -> ProbeOutcome:
        """What the audit's attacks go by: the model's own gradient, or search where it has none."""
        with self.counted(OWN):
            found = self.by_steps(self.subject.model, "apgd") if self.subject.differentiable else self.by_search()
        self.left[f"probe: {OWN}"] = found.left
        return found

    def run(self, name: str, attack: Callable[[], ProbeOutcome]) -> ProbeOutcome | None:
        """What a probe did; None where the gradient it goes by does not exist."""
        with self.counted(name):
            found = self.tried(attack)
        if found is not None and name != FORCE:
            self.left[f"probe: {name}"] = found.left
        return found

    @contextmanager
    def counted(self, name: str) -> Iterator[None]:
        """Count the passes of a probe."""
        passes = self.costs[name] * self.count
        self.taken += passes
        with self.progress.doing(f"checking for masked gradients: {name}", passes):
            yield

    def tried(self, attack: Callable[[], T]) -> T | None:
        """What an attack did, if its gradient exists."""
        try:
            return attack()
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception:  # a model's own code raises what it likes
            return None

    def by_steps(
        self, module: nn.Module, method: Method, steps: int | None = None, eps: float | None = None
    ) -> ProbeOutcome:
        """Gradient steps on the margin, from the image itself: random starts would break queries by themselves."""
        budget = Budget(eps=eps or self.eps, steps=steps or steps_of(self.subject), method=method)
        return self._judged(craft(module, self.images, self.margin, budget, chunk=self.subject.chunk).images)

    def by_goal(self, goal: str, module: nn.Module, budget: Budget) -> ProbeOutcome:
        """Steps towards another goal."""
        bound = attacks.build(goal).bind(self.subject.references, self.rows, self.subject.generator("probe", goal))
        return self._judged(craft(module, self.images, bound, budget, chunk=self.subject.chunk).images)

    def by_search(self) -> ProbeOutcome:
        """Random search."""
        budget, generator = Budget.fgsm(self.eps), self.subject.generator("probe-search")
        queries, chunk = _queries(self.subject), self.subject.chunk
        found = square(
            self.subject.model, self.images, self.margin, budget, queries=queries, generator=generator, chunk=chunk
        )
        return self._outcome(found)

    def _judged(self, images: Tensor) -> ProbeOutcome:
        forward = Forward(self.subject.model)
        return self._outcome(judge(forward, images, self.margin, self.subject.chunk, self.clean))

    def _outcome(self, found: Attacked) -> ProbeOutcome:
        return ProbeOutcome(found.measures["hit"] > 0, (self.clean - found.loss).clamp_min(0))

    def percent(self, left: Tensor) -> str:
        """R@1 of all probed images."""
        return f"{100 * int(left.sum()) / self.count:.1f}"
