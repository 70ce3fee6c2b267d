"""Masked gradients: what attacks reach when they go by gradients that a model cannot mask.

The same attack is made twice on the same images, by the model's own gradient and by another one, which for a sound
model is no better. The gradient is masked where the other gets clearly farther.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from holdfast import attacks
from holdfast.attacks import Budget, craft, square
from holdfast.attacks.ball import Ball
from holdfast.attacks.estimated import FiniteDifferences, Smoothed
from holdfast.attacks.forward import Attacked, Forward, judge
from holdfast.attacks.unmasked import CUTS, Cut, Unmasked
from holdfast.audit.flags import Flag
from holdfast.audit.plan import Passes, Progress
from holdfast.audit.sampling import balanced_rows
from holdfast.audit.subject import HURRY, Expectation, Subject

IMAGES = 40
STEPS = 8
COPIES = 2
"""Noisy copies of an image at each step."""
QUERIES = 60
DIRECTIONS = 3
HUGE = 0.5
MARGIN = 0.1
"""Fraction of the queries that an attack may leave or gain without saying anything."""
FARTHER = 1.25
"""How many times as far as by the model's own gradient an attack must get before that is masked."""
CHANCE = 0.005
"""How likely its advantage may be, image by image, if both gradients were as good."""
SLOPE = 5.0
"""How many times as much, or as little, as its gradient says may change along it before that is no gradient of it."""
TRIED = 4
"""Images that tell, before images are chosen by the clock, whether the heavier probes will be needed."""

PASSED_BY: dict[Cut, str] = {
    "before": "what comes before the network (BPDA with the identity)",
    "behind": "what comes behind its last layer (BPDA with the identity)",
    "inside": "rounding, saturation, cut graphs and custom backward passes (straight-through)",
}
"""What gradients pass by, the likeliest cause first."""
AGAIN = ("es", "ltm", "gtm")
"""Reported attacks that are made again by a gradient without its mask."""
OWN, UNMASKED, CAUSES, REPORTED, FORCE = "own gradient", "no mask", "causes", "reported attack", "large eps"
LONG = ("blurred", "noise", "noise, no mask", "one step", FORCE, "finite differences", "random search")
"""Probes of models that hold, where nothing was found at once."""
EXPLAIN = (CAUSES, REPORTED)
"""Attacks that follow where something was found; the long probes, which then do not, take more."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What an attack did to the probed queries.

    Args:
        left: which still find their class.
        reached: by how much each lost its margin over the nearest wrong item.
    """

    left: Tensor
    reached: Tensor

    def beats(self, other: Outcome) -> bool:
        """Whether it got clearly farther than another attack on the same queries: in sum, and image by image."""
        farther = float(self.reached.sum()) > FARTHER * max(float(other.reached.sum()), 0.0)
        tie = 0.02 * float(self.reached.abs().mean())
        ahead = int((self.reached > other.reached + tie).sum())
        behind = int((other.reached > self.reached + tie).sum())
        return farther and _by_chance(ahead, ahead + behind) <= CHANCE


def _off(slope: float) -> float:
    """How far a multiple is from one, as a logarithm."""
    return abs(math.log(slope)) if slope > 0 else math.inf


def _by_chance(heads: int, tosses: int) -> float:
    """How likely a fair coin shows so many heads or more."""
    return sum(math.comb(tosses, k) for k in range(heads, tosses + 1)) / 2**tosses


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
    steps, queries = _steps(subject), _queries(subject)
    attack = Passes(forward=2, back=steps)
    search = Passes(forward=queries + 2)
    averaged = Passes(forward=1, back=COPIES * steps)
    costs = {UNMASKED: attack, OWN: search, CAUSES: attack * len(CUTS)}
    costs[REPORTED] = Passes(forward=1, back=2 * steps)
    if not subject.differentiable:
        return costs
    return costs | {
        OWN: attack,
        "slope": Passes(forward=2, back=1) * (1 + len(CUTS)),
        "blurred": attack,
        "noise": averaged,
        "noise, no mask": averaged,
        "one step": Passes(forward=1, back=1),
        FORCE: attack,
        "finite differences": Passes(forward=(2 * DIRECTIONS + 1) * steps + 1),
        "random search": search,
    }


def _steps(subject: Subject) -> int:
    return max(4, STEPS // HURRY) if subject.quick else STEPS


def _queries(subject: Subject) -> int:
    return QUERIES // HURRY if subject.quick else QUERIES


def falls_at_once(subject: Subject, eps: float) -> bool:
    """Whether a few steps break each of a few queries, so that most probes will be left out."""
    if not subject.differentiable:
        return False
    probes = Probes(subject, eps, {}, Progress(Passes()), subject.limited(min(TRIED, len(subject.rows))).rows)
    return not bool(probes.by_steps(subject.model, "apgd").left.any())


def reported_hits(subject: Subject, measured: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Attack → whether each attacked image still found its class, of those attacks that tell."""
    return {
        name: values["hit"]
        for name, values in measured.items()
        if "hit" in values and values["hit"].shape == subject.rows.shape
    }


@dataclasses.dataclass(frozen=True)
class Probed:
    """What probes found.

    Args:
        flags: causes of masked gradients.
        broken: probe → positions in `subject.rows` of the queries that it broke.
    """

    flags: list[Flag]
    broken: dict[str, Tensor]


def find_masking(subject: Subject, eps: float, reported: Mapping[str, Tensor], progress: Progress) -> Probed:
    """Signs that a model looks robust only because attacks by its gradient cannot see.

    Args:
        subject: the model, with the gallery it searches.
        eps: of the audit, in pixels.
        reported: attack → whether each of `subject.rows` still found its class under it.
        progress: counts the passes of each probe.
    """
    positions = probed_rows(subject)
    rows = subject.rows[positions.to(subject.rows.device)]
    hits = {name: hit.cpu()[positions] > 0 for name, hit in reported.items()}
    probes = Probes(subject, eps, hits, progress, rows)
    found = probes.flags() if bool(probes.right.any()) else []
    planned, taken = masking_passes(subject), probes.taken
    progress.skip(Passes(max(0, planned.forward - taken.forward), max(0, planned.back - taken.back)))
    right = positions[probes.right.cpu()]
    return Probed(found, {name: right[~left.cpu()] for name, left in probes.left.items()})


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

    def flags(self) -> list[Flag]:
        """The first cause that explains what is seen, cheap probes first."""
        other = self.run(UNMASKED, lambda: self.by_steps(Unmasked(self.subject.model), "apgd"))
        if other is None and not self.subject.differentiable:
            return []
        own = self.own()
        if other is not None and other.beats(own):
            return self._causes(own, other)
        if not self.subject.differentiable:
            return []
        found = self._false_slope(own)
        if found or not self._claims(own):
            return found
        return self._rough(own) or self._blind(own)

    def _causes(self, own: Outcome, other: Outcome) -> list[Flag]:
        """Which of the cuts alone gets as far as all of them, and what the reported attacks would have found by it."""
        model = self.subject.model
        with self.counted(CAUSES):
            alone = {cut: self.tried(partial(self.by_steps, Unmasked(model, [cut]), "apgd")) for cut in PASSED_BY}
        by_cut = {cut: outcome for cut, outcome in alone.items() if outcome is not None and outcome.beats(own)}
        enough = [cut for cut in by_cut if not other.beats(by_cut[cut])][:1]
        cuts = enough or list(by_cut) or list(CUTS)
        best = by_cut[cuts[0]] if enough else other
        return [Flag(f"masked-{cuts[0]}", self._told(own, best, cuts))]

    def _told(self, own: Outcome, other: Outcome, cuts: list[Cut]) -> str:
        """The figure with and without a cause: of the reported attack that left most, or else of the probe itself."""
        words = " and ".join(PASSED_BY[cut] for cut in cuts)
        by_own = "by the model's own gradient" if self.subject.differentiable else "by random search"
        what, before, after = by_own, own.left, other.left
        named = max(set(AGAIN) & set(self.reported), key=lambda name: int(self.reported[name].sum()), default=None)
        if named is not None:
            budget = Budget(eps=self.eps, steps=2 * _steps(self.subject))
            again = self.run(REPORTED, lambda: self.by_goal(named, Unmasked(self.subject.model, cuts), budget))
            if again is not None and int(again.left.sum()) < int(self.reported[named].sum()):
                what, before, after = f"under the reported attack {named}", self.reported[named], again.left
        figures = f"R@1 {what} {self.percent(before)}; {self.percent(after)} when gradients pass by"
        return f"{figures} {words}, and {self._farther(own, other)}"

    def _farther(self, own: Outcome, other: Outcome) -> str:
        by_own = float(own.reached.sum())
        if by_own <= 0:
            return "without that the attack gets nowhere"
        return f"the same attack gets {float(other.reached.sum()) / by_own:.1f} times as far"

    def _claims(self, own: Outcome) -> bool:
        """Whether there is a robustness to doubt."""
        left = [own.left, *self.reported.values()]
        return max(float(each.double().mean()) for each in left) > MARGIN

    def _rough(self, own: Outcome) -> list[Flag]:
        """Gradients that are those of small bumps, or whose image is blurred."""
        model, draw = self.subject.model, self.subject.generator
        noise = self.eps / 2
        tries: dict[str, tuple[str, Callable[[], nn.Module]]] = {
            "blurred": ("masked-before", lambda: Unmasked(model, blur=True)),
            "noise": ("rough-surface", lambda: Smoothed(model, noise, COPIES, draw("probe-noise"))),
            "noise, no mask": ("rough-surface", lambda: Smoothed(Unmasked(model), noise, COPIES, draw("probe-noise"))),
        }
        words = {
            "blurred": "passes by what comes before the network, blurred (BPDA with a blur)",
            "noise": f"is a mean over noise of {255 * noise:.2g}/255",
            "noise, no mask": f"is a mean over noise of {255 * noise:.2g}/255 and passes by what could mask it (BPDA)",
        }
        for name, (flag, build) in tries.items():
            method = "apgd" if name == "blurred" else "momentum"
            other = self.run(name, lambda build=build, method=method: self.by_steps(build(), method))
            if other is not None and other.beats(own):
                why = f"R@1 by the model's own gradient {self.percent(own.left)}; {self.percent(other.left)} when it"
                return [Flag(flag, f"{why} {words[name]}, and {self._farther(own, other)}")]
        return []

    def _blind(self, own: Outcome) -> list[Flag]:
        """What needs no gradient does better than it, many steps do no better than one, or nothing helps at all."""
        model, found = self.subject.model, []
        draws = self.subject.generator("probe-differences")
        by_one = self.run("one step", lambda: self.by_steps(model, "pgd", 1))
        by_force = self.run(FORCE, lambda: self.by_steps(model, "apgd", eps=HUGE))
        differences = FiniteDifferences(model, self.eps / 2, DIRECTIONS, draws)
        others = {
            "finite differences": self.run("finite differences", lambda: self.by_steps(differences, "momentum")),
            "random search": self.run("random search", self.by_search),
        }
        for name, other in others.items():
            if other is not None and other.beats(own):
                why = f"R@1 by the model's own gradient {self.percent(own.left)}; {self.percent(other.left)} by {name}"
                found.append(Flag("search-beats-gradient", f"{why}, and {self._farther(own, other)}"))
                break
        if by_force is not None and float(by_force.left.double().mean()) > MARGIN:
            why = f"even with changes of {HUGE:g} per pixel R@1 is {self.percent(by_force.left)}"
            found.append(Flag("large-eps-fails", why))
        if by_one is not None and by_one.beats(own):
            many = f"{self.percent(own.left)} after {_steps(self.subject)} steps"
            why = f"R@1 {many} by the model's own gradient, {self.percent(by_one.left)} after one"
            found.append(Flag("more-steps-do-not-help", why))
        return found

    def _false_slope(self, own: Outcome) -> list[Flag]:
        """A gradient that is not the slope of what the model computes, and what to pass by so that it is."""
        if isinstance(self.subject.model, Expectation):  # where noise moves vectors, a short step says nothing
            return []
        model = self.subject.model
        with self.counted("slope"):
            found = self.slope(model)
            if _off(found) <= math.log(SLOPE):
                return []
            off = {cut: _off(self.slope(Unmasked(model, [cut]))) for cut in PASSED_BY}
        why = "the gradient is zero near most images"
        if not math.isinf(found):
            why = f"a short step along the gradient changes {found:.2g} times what the gradient says"
        cut = min(off, key=lambda name: off[name])
        if off[cut] > min(_off(found), 1e9) / 2:
            return [Flag("false-gradient", why)]
        blurs = (False, True) if cut == "before" else (False,)
        with self.counted(CAUSES):
            tries = [self.tried(partial(self.by_steps, Unmasked(model, [cut], blur), "apgd")) for blur in blurs]
        best = max((other for other in tries if other is not None), key=lambda other: float(other.reached.sum()))
        return [Flag(f"masked-{cut}", f"{why}; {self._told(own, best, [cut])}")]

    def slope(self, module: nn.Module) -> float:
        """What a short step along a gradient changes, as a multiple of what the gradient says: the median of images.

        Near the images, not at them: a model may treat 8-bit pixels otherwise.
        """
        step = min(self.eps / 8, 1 / 255)
        ball = Ball(self.images, self.eps / 4, "linf")
        points = ball.start(self.eps / 4, self.subject.generator("probe-slope"))
        _, gradient = Forward(module).gradient(points, self.margin, first=True)
        forward = Forward(self.subject.model)
        change = step * gradient.sign()
        ends = [forward.loss((points + side * change).clamp(0, 1), self.margin) for side in (1, -1)]
        said = (gradient * change).flatten(1).sum(1)
        return float(((ends[0] - ends[1]) / 2 / said).nan_to_num(torch.inf).median())

    def own(self) -> Outcome:
        """What the audit's attacks go by: the model's own gradient, or search where it has none."""
        with self.counted(OWN):
            found = self.by_steps(self.subject.model, "apgd") if self.subject.differentiable else self.by_search()
        self.left[f"probe: {OWN}"] = found.left
        return found

    def run(self, name: str, attack: Callable[[], Outcome]) -> Outcome | None:
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

    def tried(self, attack: Callable[[], Outcome]) -> Outcome | None:
        """What an attack did, if its gradient exists."""
        try:
            return attack()
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception:  # a model's own code raises what it likes
            return None

    def by_steps(self, module: nn.Module, method: str, steps: int | None = None, eps: float | None = None) -> Outcome:
        """Gradient steps on the margin, from the image itself: random starts would break queries by themselves."""
        budget = Budget(eps=eps or self.eps, steps=steps or _steps(self.subject), method=method)  # type: ignore[arg-type]
        return self._judged(craft(module, self.images, self.margin, budget, chunk=self.subject.chunk).images)

    def by_goal(self, goal: str, module: nn.Module, budget: Budget) -> Outcome:
        """Steps towards another goal."""
        bound = attacks.build(goal).bind(self.subject.references, self.rows, self.subject.generator("probe", goal))
        return self._judged(craft(module, self.images, bound, budget, chunk=self.subject.chunk).images)

    def by_search(self) -> Outcome:
        """Random search."""
        budget, generator = Budget.fgsm(self.eps), self.subject.generator("probe-search")
        options = {"queries": _queries(self.subject), "generator": generator, "chunk": self.subject.chunk}
        return self._outcome(square(self.subject.model, self.images, self.margin, budget, **options))  # type: ignore[arg-type]

    def _judged(self, images: Tensor) -> Outcome:
        forward = Forward(self.subject.model)
        return self._outcome(judge(forward, images, self.margin, self.subject.chunk, self.clean))

    def _outcome(self, found: Attacked) -> Outcome:
        return Outcome(found.measures["hit"] > 0, (self.clean - found.loss).clamp_min(0))

    def percent(self, left: Tensor) -> str:
        """R@1 of all probed images."""
        return f"{100 * int(left.sum()) / self.count:.1f}"
