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
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from holdfast.studies.results import NOT_RUN, Results

Status: TypeAlias = Literal["holds", "does not hold", "undecided"]

T95 = (
    *(6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782),
    *(1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714),
)
"""One-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom; more than there are count as the last."""

ONE_SEED = "(1 seed)"
LEVEL = "half of it out of reach"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a claim came to.

    Args:
        claim: its words.
        status: `holds`, `does not hold` or `undecided`.
        evidence: the numbers it rests on.
        parts: verdicts that it joins, where it does.
    """

    claim: str
    status: Status
    evidence: str
    parts: tuple[Verdict, ...] = ()

    @property
    def one_seed(self) -> bool:
        """Whether a number that it rests on comes from a single seed; a refutation rests on its strongest part."""
        if self.status == "does not hold" and self.parts:
            return all(part.one_seed for part in self.parts if part.status == self.status)
        return ONE_SEED in self.evidence

    @property
    def level(self) -> bool:
        """Whether it is refuted only by arms that come out level where the source has them apart."""
        if self.status != "does not hold":
            return False
        if self.parts:
            return all(part.level for part in self.parts if part.status == self.status)
        return LEVEL in self.evidence

    @property
    def unfinished(self) -> bool:
        """Whether it is open because something that it needs was not run."""
        return self.status == "undecided" and NOT_RUN in self.evidence

    @property
    def words(self) -> str:
        """Its status, and what weakens it."""
        if self.unfinished:
            return "not all run"
        weak = [word for word, true in (("level", self.level), ("one seed", self.one_seed)) if true]
        return self.status + (f" ({', '.join(weak)})" if weak else "")


class Claim(ABC):
    """One sentence that results can refute."""

    text: str

    @abstractmethod
    def verdict(self, results: Results) -> Verdict:
        """Judge it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean difference with its half-width.

    Args:
        mean: of the differences.
        half: of the one-sided 95 % interval, or the noise of a single seed.
        seeds: how many differences.
    """

    mean: float
    half: float
    seeds: int

    def status(self, least: float = 0.0) -> Status:
        """Is it above `least`?"""
        if self.mean - self.half > least:
            return "holds"
        return "does not hold" if self.mean + self.half < least else "undecided"

    def __str__(self) -> str:
        """`+1.2 ± 0.3 (3 seeds)`."""
        seeds = ONE_SEED if self.seeds == 1 else f"({self.seeds} seeds)"
        return f"{self.mean:+.3g} ± {self.half:.2g} {seeds}"


def interval(values: list[float], noise: float) -> Interval | None:
    """The interval of some differences; None where there are none.

    Args:
        values: one per seed.
        noise: half-width to assume where there is one seed only.
    """
    if not values:
        return None
    if len(values) == 1:
        return Interval(mean=values[0], half=noise, seeds=1)
    t = T95[min(len(values) - 1, len(T95)) - 1]
    half = t * statistics.stdev(values) / len(values) ** 0.5
    return Interval(mean=statistics.fmean(values), half=half, seeds=len(values))


def difference(results: Results, more: str, less: str, figure: str, noise: float) -> Interval | None:
    """How far one arm lies above another, seed by seed."""
    upper, lower = results.by_seed(more, figure), results.by_seed(less, figure)
    return interval([upper[seed] - lower[seed] for seed in sorted(upper.keys() & lower.keys())], noise)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ordered(Claim):
    """Each arm lies above the next in a figure.

    Args:
        text: the claim in words.
        arms: from the highest to the lowest.
        figure: what is compared.
        noise: between two runs of one recipe, for verdicts on one seed.
        least: by how much at least.
        smaller: the figure falls along the arms' order: the first has the smallest.
        printed: how far apart the source has each arm and the next, where it was measured on the same data.
    """

    text: str
    arms: tuple[str, ...]
    figure: str = "R@1"
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Near(Claim):
    """Two arms differ by no more than a tolerance in a figure.

    Args:
        text: the claim in words.
        arms: the two.
        within: the tolerance; wider than the noise, or one seed could never show it.
        figure: what is compared.
        noise: between two runs of one recipe, for verdicts on one seed.
    """

    text: str
    arms: tuple[str, str]
    within: float
    figure: str = "R@1"
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Beyond(Claim):
    """An arm's figure lies above (or below) a bound.

    Args:
        text: the claim in words.
        arm: whose figure.
        figure: which.
        above: the bound, or
        below: the bound.
        noise: half-width to assume on one seed.
    """

    text: str
    arm: str
    figure: str
    above: float | None = None
    below: float | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        if (self.above is None) == (self.below is None):
            raise ValueError(f"{self.text}: give above or below")

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class All(Claim):
    """Several claims at once.

    Args:
        text: the claim in words.
        parts: all must hold.
    """

    text: str
    parts: tuple[Claim, ...]

    def verdict(self, results: Results) -> Verdict:
        """Holds if every part does; does not hold if any part does not."""
        found = [part.verdict(results) for part in self.parts]
        evidence = "; ".join(f"[{v.status}] {v.evidence}" for v in found)
        return Verdict(claim=self.text, status=joint([v.status for v in found]), evidence=evidence, parts=tuple(found))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged(Claim):
    """A rule of its own, for claims that no other form fits.

    Args:
        text: the claim in words.
        rule: from results to a status and the numbers it rests on.
    """

    text: str
    rule: Callable[[Results], tuple[Status, str]]

    def verdict(self, results: Results) -> Verdict:
        """As the rule says."""
        status, evidence = self.rule(results)
        return Verdict(claim=self.text, status=status, evidence=evidence)


def gaps(printed: Sequence[float]) -> tuple[float, ...]:
    """How far each figure of a printed order lies above the next."""
    return tuple(upper - lower for upper, lower in itertools.pairwise(printed))


def at_best_undecided(status: Status) -> Status:
    """For claims that favour an arm of which a seed stopped early: what is left cannot make them hold."""
    return "undecided" if status == "holds" else status


def told(found: Interval | None, results: Results, arms: Iterable[str], figure: str) -> str:
    """An interval in words, with the trainings that stopped before they had the figure."""
    stops = [f"{arm} stopped in seed {seed}" for arm in arms for seed in results.stopped(arm, figure)]
    return ", ".join([*([str(found)] if found else []), *stops]) or NOT_RUN


def joint(statuses: list[Status]) -> Status:
    """All hold; or one does not; or it cannot be said."""
    if "does not hold" in statuses:
        return "does not hold"
    return "holds" if statuses and all(status == "holds" for status in statuses) else "undecided"


def _flipped(found: Interval) -> Interval:
    return Interval(mean=-found.mean, half=found.half, seeds=found.seeds)
