"""Masked gradients: what attacks reach when they go by gradients that a model cannot mask.

The same attack is made twice on the same images, by the model's own gradient and by another one, which for a sound
model is no better. The gradient is masked where the other gets clearly farther.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn

from holdfast import seeds
from holdfast.attacks import Budget
from holdfast.attacks.budget import Method
from holdfast.attacks.estimated import FiniteDifferences, Smoothed
from holdfast.attacks.unmasked import CUTS, Cut, Unmasked
from holdfast.audit import probes
from holdfast.audit.flags import Flag
from holdfast.audit.plan import Passes, Progress
from holdfast.audit.probes import (
    CAUSES,
    FORCE,
    REPORTED,
    SLOPE,
    SLOPES,
    STEADY,
    UNMASKED,
    ProbeOutcome,
    Probes,
    breaks_more,
    masking_passes,
    steps_of,
)
from holdfast.audit.subject import Expectation, Subject
from holdfast.errors import plural

HUGE = 0.5
ENOUGH = math.ceil(-math.log2(probes.CHANCE))
"""Queries of which all must do better by another gradient before that is no chance."""
MARGIN = 0.1
"""Fraction of the queries that an attack may leave without saying anything."""
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


def falls_at_once(subject: Subject, eps: float) -> bool:
    """Whether a few steps break each of a few queries, so that most probes will be left out."""
    if not subject.differentiable:
        return False
    few = subject.limited(min(TRIED, len(subject.rows))).rows
    tried = Probes(subject, eps, {}, Progress(Passes()), few)
    return not (len(tried.rows) and bool(tried.by_steps(subject.model, "apgd").left.any()))


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
    positions = probes.probed_rows(subject)
    rows = subject.rows[positions.to(subject.rows.device)]
    hits = {name: hit.cpu()[positions] > 0 for name, hit in reported.items()}
    made = MaskingProbes(subject, eps, hits, progress, rows)
    torch.manual_seed(seeds.derive(subject.seed, "probes"))  # for randomised models, also where an audit goes on
    found = made.flags() if bool(made.right.any()) else []
    if len(made.rows) < ENOUGH and not found:
        told = f"{plural(len(made.rows), 'query')} right when clean cannot tell whether another gradient gets farther"
        found = [Flag("few-checked", told)]
    planned, taken = masking_passes(subject), made.taken
    progress.skip(Passes(max(0, planned.forward - taken.forward), max(0, planned.back - taken.back)))
    right = positions[made.right.cpu()]
    return Probed(found, {name: right[~left.cpu()] for name, left in made.left.items()})


class MaskingProbes(Probes):
    """Which flags the probes come to."""

    def flags(self) -> list[Flag]:
        """The first cause that explains what is seen, cheap probes first."""
        other = self.run(UNMASKED, lambda: self.by_steps(Unmasked(self.subject.model), "apgd"))
        if other is None and not self.subject.differentiable:
            return []
        own = self.own()
        if other is not None and other.beats(own):
            return self._causes(own, other)
        if not self.subject.differentiable:
            return self._searched_in_vain()
        found = self._false_slope(own)
        if found or not self._claims(own):
            return found
        return self._rough(own) or self._blind(own)

    def _causes(self, own: ProbeOutcome, other: ProbeOutcome) -> list[Flag]:
        """Which of the cuts alone gets as far as all of them, and what the reported attacks would have found by it."""
        by_cut = {cut: outcome for cut, outcome in self._alone().items() if outcome.beats(own)}
        enough = [cut for cut in by_cut if not other.beats(by_cut[cut])][:1]
        cuts = enough or list(by_cut) or list(CUTS)
        best = by_cut[cuts[0]] if enough else other
        return [Flag(f"masked-{cuts[0]}", self._told(own, best, cuts))]

    def _alone(self) -> dict[Cut, ProbeOutcome]:
        """What gradients do that pass by one cut each."""
        model = self.subject.model
        with self.counted(CAUSES):
            alone = {cut: self.tried(partial(self.by_steps, Unmasked(model, [cut]), "apgd")) for cut in PASSED_BY}
        return {cut: outcome for cut, outcome in alone.items() if outcome is not None}

    def _told(self, own: ProbeOutcome, other: ProbeOutcome, cuts: list[Cut]) -> str:
        """The figure with and without a cause: of the reported attack that left most, or else of the probe itself."""
        by_own = "by the model's own gradient" if self.subject.differentiable else "by random search"
        what, before, after = by_own, own.left, other.left
        named = self._held_best()
        again = self._reported_again(named, cuts) if named else None
        if named and again is not None and int(again.left.sum()) < int(self.reported[named].sum()):
            what, before, after = f"under the reported attack {named}", self.reported[named], again.left
        return f"{self._figures(what, before, after, cuts)}, and {self._farther(own, other)}"

    def _figures(self, what: str, before: Tensor, after: Tensor, cuts: list[Cut]) -> str:
        words = " and ".join(PASSED_BY[cut] for cut in cuts)
        return f"R@1 {what} {self.percent(before)}; {self.percent(after)} when gradients pass by {words}"

    def _held_best(self) -> str | None:
        """The reported attack that left most, of those that can be made again."""
        known = [name for name in AGAIN if name in self.reported]
        return max(known, key=lambda name: int(self.reported[name].sum()), default=None)

    def _reported_again(self, named: str, cuts: list[Cut]) -> ProbeOutcome | None:
        """A reported attack by a gradient without its mask."""
        budget = Budget(eps=self.eps, steps=2 * steps_of(self.subject))
        return self.run(REPORTED, lambda: self.by_goal(named, Unmasked(self.subject.model, cuts), budget))

    def _searched_in_vain(self) -> list[Flag]:
        """A reported attack by search that clearly more queries hold against than against gradients past masks."""
        named = self._held_best()
        if named is None:
            return []
        alone = self._alone()
        cut = max(alone, key=lambda each: float(alone[each].reached.sum()), default=None)
        again = self._reported_again(named, [cut]) if cut else None
        if cut is None or again is None or not breaks_more(again.left, self.reported[named]):
            return []
        what = f"under the reported attack {named}, by random search,"
        return [Flag(f"masked-{cut}", self._figures(what, self.reported[named], again.left, [cut]))]

    def _farther(self, own: ProbeOutcome, other: ProbeOutcome) -> str:
        by_own = float(own.reached.sum())
        if by_own <= 0:
            return "without that the attack gets nowhere"
        return f"the same attack gets {float(other.reached.sum()) / by_own:.1f} times as far"

    def _claims(self, own: ProbeOutcome) -> bool:
        """Whether there is a robustness to doubt, under attacks that want another class to be found."""
        aimed = [name for name in AGAIN if name in self.reported] or list(self.reported)
        left = [own.left, *(self.reported[name] for name in aimed)]
        return max(float(each.double().mean()) for each in left) > MARGIN

    def _rough(self, own: ProbeOutcome) -> list[Flag]:
        """Gradients that are those of small bumps, or whose image is blurred."""
        model, size = self.subject.model, self.eps / 2
        mean = f"is a mean over noise of {255 * size:.2g}/255"

        def smoothed(module: nn.Module) -> nn.Module:
            return Smoothed(module, size, probes.COPIES, self.subject.generator("probe-noise"))

        blurred = Unmasked(model, blur=True)
        tries: dict[str, tuple[str, nn.Module, Method, str]] = {
            "blurred": ("masked-before", blurred, "apgd", "passes by what comes before the network (BPDA with a blur)"),
            "noise": ("rough-surface", smoothed(model), "momentum", mean),
            "noise, no mask": ("rough-surface", smoothed(Unmasked(model)), "momentum", f"{mean} and passes by masks"),
        }
        alike: dict[Method, ProbeOutcome | None] = {"apgd": own}
        for name, (flag, module, method, words) in tries.items():
            if method not in alike:
                alike[method] = self.run(STEADY, partial(self.by_steps, model, method))
            other = self.run(name, partial(self.by_steps, module, method))
            if other is not None and all(same is None or other.beats(same) for same in alike.values()):
                why = f"R@1 by the model's own gradient {self.percent(own.left)}; {self.percent(other.left)} when it"
                return [Flag(flag, f"{why} {words}, and {self._farther(own, other)}")]
        return []

    def _blind(self, own: ProbeOutcome) -> list[Flag]:
        """What needs no gradient does better than it, many steps do no better than one, or nothing helps at all."""
        model = self.subject.model
        found: list[Flag] = []
        draws = self.subject.generator("probe-differences")
        by_one = self.run("one step", lambda: self.by_steps(model, "pgd", 1))
        by_force = self.run(FORCE, lambda: self.by_steps(model, "apgd", eps=HUGE))
        differences = FiniteDifferences(model, self.eps / 2, probes.DIRECTIONS, draws)
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
            many = f"{self.percent(own.left)} after {steps_of(self.subject)} steps"
            why = f"R@1 {many} by the model's own gradient, {self.percent(by_one.left)} after one"
            found.append(Flag("more-steps-do-not-help", why))
        return found

    def _false_slope(self, own: ProbeOutcome) -> list[Flag]:
        """A gradient that is not the slope of what the model computes, and what to pass by so that it is."""
        if isinstance(self.subject.model, Expectation):  # where noise moves vectors, a short step says nothing
            return []
        model = self.subject.model
        with self.counted("slope"):
            found = self.slope(model)
        if _off(found) <= math.log(SLOPE):
            return []
        with self.counted(SLOPES):
            slopes = {cut: self.tried(partial(self.slope, Unmasked(model, [cut]))) for cut in PASSED_BY}
        off = {cut: _off(slope or 0.0) for cut, slope in slopes.items()}
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


def _off(slope: float) -> float:
    """How far a multiple is from one, as a logarithm."""
    return abs(math.log(slope)) if slope > 0 else math.inf
