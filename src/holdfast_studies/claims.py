"""Claims as rules over results: the verdict is computed, never written.

Two arms are compared seed by seed. With two seeds or more, the difference must clear its one-sided 95 % t interval;
with one seed, it must clear `noise`, what two runs of one recipe may differ by, and the verdict says so. Arms that come
out level refute an order only where the source prints by how much they should differ, and half of that lies beyond the
interval. A training that stopped early has no figure to compare: the evidence names it, and where the claim favours its
arm, the claim cannot hold on the seeds that are left.
"""

from __future__ import annotations

import dataclasses
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from holdfast_studies.intervals import Interval, difference, interval
from holdfast_studies.results import NOT_RUN, Results
from holdfast_studies.verdict import LEVEL, Status, Verdict, at_best_undecided, joint


@dataclasses.dataclass(frozen=True)
class Claim(ABC):
    """One sentence that results can refute.

    Args:
        text: the claim in words.
        reading: how something that the source leaves unsaid is read ("ε normalised"), as its arms have it; a claim is
            judged once per reading.
        limit: it goes beyond what the source claims or proves, to see how far that reaches; refutes nothing.
    """

    text: str
    _: dataclasses.KW_ONLY
    reading: str = ""
    limit: bool = False

    @property
    def of_levels(self) -> bool:
        """Whether it is about the height of a figure, which another backbone changes, and not about differences."""
        return False

    @abstractmethod
    def verdict(self, results: Results) -> Verdict:
        """Judge it."""


@dataclasses.dataclass(frozen=True)
class Ordered(Claim):
    """Each arm lies above the next in a figure.

    Args:
        arms: from the highest to the lowest.
        figure: what is compared.
        noise: between two runs of one recipe, for verdicts on one seed.
        least: by how much at least.
        smaller: the figure falls along the arms' order: the first has the smallest.
        printed: how far apart the source has each arm and the next, where it was measured on the same data.
    """

    arms: tuple[str, ...]
    figure: str = "R@1"
    _: dataclasses.KW_ONLY
    noise: float = 1.0
    least: float = 0.0
    smaller: bool = False
    printed: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.printed and (len(self.printed) != len(self.arms) - 1 or min(self.printed) <= 0):
            raise ValueError(f"{self.text}: printed needs a positive difference for each arm and the next")

    def verdict(self, results: Results) -> Verdict:
        """Holds if every link does; does not hold if any link is reversed."""
        printed = self.printed or (None,) * (len(self.arms) - 1)
        links = [
            self._link(results, first, second, expected)
            for first, second, expected in zip(self.arms, self.arms[1:], printed, strict=False)
        ]
        evidence = f"{self.figure}: " + "; ".join(link.evidence for link in links)
        return Verdict(
            claim=self.text, status=joint([link.status for link in links]), evidence=evidence, parts=tuple(links)
        )

    def _link(self, results: Results, first: str, second: str, printed: float | None) -> Verdict:
        more, less = (second, first) if self.smaller else (first, second)
        found = difference(results, more, less, self.figure, self.noise)
        status: Status = "undecided" if found is None else found.status(self.least)
        evidence = f"{more} - {less}: {told(found, results, (first, second), self.figure)}"
        if printed is not None:
            evidence += f", published {printed:+.3g}"
            if status == "undecided" and found is not None and found.mean + found.half < printed / 2:
                status, evidence = "does not hold", f"{evidence}, {LEVEL}"
        if results.stopped(first, self.figure):
            status = at_best_undecided(status)
        return Verdict(claim=f"{first}, {second}", status=status, evidence=evidence)


@dataclasses.dataclass(frozen=True)
class Near(Claim):
    """Two arms differ by no more than a tolerance in a figure.

    Args:
        arms: the two.
        within: the tolerance; wider than the noise, or one seed could never show it.
        figure: what is compared.
        noise: between two runs of one recipe, for verdicts on one seed.
    """

    arms: tuple[str, str]
    within: float
    figure: str = "R@1"
    _: dataclasses.KW_ONLY
    noise: float = 1.0

    def __post_init__(self) -> None:
        if self.within <= self.noise:
            raise ValueError(f"{self.text}: within {self.within:g} must be more than the noise, {self.noise:g}")

    def verdict(self, results: Results) -> Verdict:
        """Holds if the whole interval lies within; does not hold if none of it does."""
        found = difference(results, *self.arms, self.figure, self.noise)
        evidence = f"{self.figure}: {' - '.join(self.arms)}: {told(found, results, self.arms, self.figure)}"
        status: Status = "undecided"
        if found is not None and abs(found.mean) + found.half <= self.within:
            status = "holds"
        elif found is not None and abs(found.mean) - found.half > self.within:
            status = "does not hold"
        if any(results.stopped(arm, self.figure) for arm in self.arms):
            status = at_best_undecided(status)
        return Verdict(claim=self.text, status=status, evidence=f"{evidence}, tolerance {self.within:g}")


@dataclasses.dataclass(frozen=True)
class Beyond(Claim):
    """An arm's figure lies above (or below) a bound.

    Args:
        arm: whose figure.
        figure: which.
        above: the bound, or
        below: the bound.
        noise: half-width to assume on one seed.
    """

    arm: str
    figure: str
    _: dataclasses.KW_ONLY
    above: float | None = None
    below: float | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        if (self.above is None) == (self.below is None):
            raise ValueError(f"{self.text}: give above or below")

    @property
    def of_levels(self) -> bool:
        """A bound is of a level."""
        return True

    def verdict(self, results: Results) -> Verdict:
        """On which side the interval lies."""
        found = interval(results.values(self.arm, self.figure), self.noise)
        bound = f"bound {self.above if self.above is not None else self.below:g}"
        status: Status = "undecided"
        if found is not None and self.above is not None:
            status = found.status(self.above)
        elif found is not None:
            status = _flipped(found).status(-float(self.below or 0))
        if results.stopped(self.arm, self.figure):
            status = at_best_undecided(status)
        evidence = f"{self.arm}, {self.figure}: {told(found, results, (self.arm,), self.figure)}, {bound}"
        return Verdict(claim=self.text, status=status, evidence=evidence)


@dataclasses.dataclass(frozen=True)
class All(Claim):
    """Several claims at once.

    Args:
        parts: all must hold.
    """

    parts: tuple[Claim, ...]

    @property
    def of_levels(self) -> bool:
        """Whether any part is."""
        return any(part.of_levels for part in self.parts)

    def verdict(self, results: Results) -> Verdict:
        """Holds if every part does; does not hold if any part does not."""
        found = [part.verdict(results) for part in self.parts]
        evidence = "; ".join(f"[{v.status}] {v.evidence}" for v in found)
        return Verdict(claim=self.text, status=joint([v.status for v in found]), evidence=evidence, parts=tuple(found))


@dataclasses.dataclass(frozen=True)
class Judged(Claim):
    """A rule of its own, for claims that no other form fits.

    Args:
        rule: from results to a status and the numbers it rests on.
        levels: whether it looks at the height of figures, not only at differences between arms.
    """

    rule: Callable[[Results], tuple[Status, str]]
    levels: bool = False

    @property
    def of_levels(self) -> bool:
        """As it says."""
        return self.levels

    def verdict(self, results: Results) -> Verdict:
        """As the rule says."""
        status, evidence = self.rule(results)
        return Verdict(claim=self.text, status=status, evidence=evidence)


def ruled(claim: Claim, rule: Callable[[Results], tuple[Status, str]]) -> Judged:
    """The same claim, judged by a rule around it."""
    return Judged(text=claim.text, reading=claim.reading, limit=claim.limit, levels=claim.of_levels, rule=rule)


def gaps(printed: Sequence[float]) -> tuple[float, ...]:
    """How far each figure of a printed order lies above the next."""
    return tuple(upper - lower for upper, lower in itertools.pairwise(printed))


def told(found: Interval | None, results: Results, arms: Iterable[str], figure: str) -> str:
    """An interval in words, with the trainings that stopped before they had the figure."""
    stops = [f"{arm} stopped in seed {seed}" for arm in arms for seed in results.stopped(arm, figure)]
    return ", ".join([*([str(found)] if found else []), *stops]) or NOT_RUN


def _flipped(found: Interval) -> Interval:
    return Interval(mean=-found.mean, half=found.half, seeds=found.seeds)
