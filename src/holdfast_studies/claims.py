"""Claims as rules over results: the verdict is computed, never written.

Two arms are compared seed by seed. With three seeds or more, the difference must clear its one-sided 95 % t interval;
with one seed, it must clear `noise`, what two runs of one recipe may differ by, and the verdict says so; with two, the
noise of two, or half of what they differ by where that is more. Arms that come out level refute an order only where the
source prints by how much they should differ, and half of that lies beyond the interval. A training that stopped early
has no figure to compare: the evidence names it, and where the claim favours its arm, the claim cannot hold on the seeds
that are left.
"""

from __future__ import annotations

import dataclasses
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from holdfast.registry import Registry
from holdfast_studies.results import NOT_RUN, ONE_SEED, Results, SeedInterval, Status, difference, interval
from holdfast_studies.setting import Setting

Standing: TypeAlias = Literal["verdict", "observation", "limit", "ours"]
"""What a result is about: a paper's claim, our own setting only, how far a claim reaches, or a claim of ours."""

Rule: TypeAlias = Callable[[Results], tuple[Status, str]]
"""From results to a status and the numbers it rests on."""

PAPER = Setting(kind="paper")
LEVEL = "half of it out of reach"
"""A sign in the evidence."""

_REACH: dict[Status, str] = {"holds": "reaches so far", "does not hold": "ends before", "undecided": "open"}
_SEEN: dict[Status, str] = {"holds": "seen", "does not hold": "not seen", "undecided": "open"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a claim came to.

    Args:
        claim: its words.
        status: `holds`, `does not hold` or `undecided`.
        evidence: the numbers it rests on.
        parts: verdicts that it joins, where it does.
        ground: whose setting its arms run in, the weakest of them.
        standing: whether it judges the paper's claim.
        reading: of what the source leaves unsaid.
    """

    claim: str
    status: Status
    evidence: str
    parts: tuple[Verdict, ...] = ()
    ground: Setting = PAPER
    standing: Standing = "verdict"
    reading: str = ""

    @property
    def full(self) -> str:
        """The claim with its reading."""
        return f"{self.claim} [{self.reading}]" if self.reading else self.claim

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
    def decided(self) -> bool:
        """Whether a paper's claim is decided by it."""
        return self.standing == "verdict" and self.status != "undecided"

    @property
    def words(self) -> str:
        """Its status, and what weakens it; an observation has none, because it is of another experiment."""
        if self.unfinished:
            return "not all run"
        if self.standing == "limit":
            return f"limit: {_REACH[self.status]}"
        if self.standing == "observation":
            return f"{_SEEN[self.status]} at pocket scale" if self.ground.kind == "pocket" else "observation"
        share = f"{100 * self.ground.length:.0f} % of the length" if self.ground.length < 1 else "shortened"
        grounds = {"shortened": share, "pocket": "pocket scale"}
        weak = [grounds.get(self.ground.kind, ""), "level" * self.level, "one seed" * self.one_seed]
        return self.status + (f" ({', '.join(filter(None, weak))})" if any(weak) else "")


def joint(statuses: Sequence[Status]) -> Status:
    """All hold; or one does not; or it cannot be said."""
    if "does not hold" in statuses:
        return "does not hold"
    return "holds" if statuses and all(status == "holds" for status in statuses) else "undecided"


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

    @abstractmethod
    def verdict(self, results: Results) -> Verdict:
        """Judge it."""

    def found(self, status: Status, evidence: str, parts: Sequence[Verdict] = (), stopped: bool = False) -> Verdict:
        """What it came to; at best undecided where a seed of an arm that it favours stopped early."""
        status = "undecided" if stopped and status == "holds" else status
        return Verdict(claim=self.text, status=status, evidence=evidence, parts=tuple(parts))


registry: Registry[Claim] = Registry("claim", Claim, "holdfast_studies.catalogue")
register = registry.register


@register("ordered")
@dataclasses.dataclass(frozen=True)
class Ordered(Claim):
    """Each arm lies above the next in a figure.

    Args:
        arms: from the highest to the lowest.
        figure: what is compared.
        noise: between two runs of one recipe, for verdicts on one seed.
        least: by how much at least.
        smaller: the figure falls along the arms' order: the first has the smallest.
        printed: the figure of each arm as the source has it, where it was measured on the same data.
    """

    arms: tuple[str, ...]
    figure: str = "R@1"
    _: dataclasses.KW_ONLY
    noise: float = 1.0
    least: float = 0.0
    smaller: bool = False
    printed: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.printed and (len(self.printed) != len(self.arms) or min(self.apart) <= 0):
            raise ValueError(f"{self.text}: printed needs a figure for each arm, in the order of the claim")

    @property
    def apart(self) -> tuple[float, ...]:
        """How far apart the source has each arm and the next."""
        sign = -1 if self.smaller else 1
        return tuple(sign * (first - second) for first, second in itertools.pairwise(self.printed))

    def verdict(self, results: Results) -> Verdict:
        """Holds if every link does; does not hold if any link is reversed."""
        rows = itertools.zip_longest(self.arms[:-1], self.arms[1:], self.apart)
        links = [self._link(results, *row) for row in rows]
        evidence = f"{self.figure}: " + "; ".join(link.evidence for link in links)
        return self.found(joint([link.status for link in links]), evidence, links)

    def _link(self, results: Results, first: str, second: str, printed: float | None) -> Verdict:
        more, less = (second, first) if self.smaller else (first, second)
        gap = difference(results, more, less, self.figure, self.noise)
        status: Status = "undecided" if gap is None else gap.status(self.least)
        evidence = f"{more} - {less}: {told(gap, results, (first, second), self.figure)}"
        if printed is not None:
            evidence += f", published {printed:+.3g}"
            if status == "undecided" and gap is not None and gap.mean + gap.half < printed / 2:
                status, evidence = "does not hold", f"{evidence}, {LEVEL}"
        found = self.found(status, evidence, stopped=bool(results.stopped(first, self.figure)))
        return dataclasses.replace(found, claim=f"{first}, {second}")


@register("near")
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
        gap = difference(results, *self.arms, self.figure, self.noise)
        evidence = f"{self.figure}: {' - '.join(self.arms)}: {told(gap, results, self.arms, self.figure)}"
        status: Status = "undecided"
        if gap is not None and abs(gap.mean) + gap.half <= self.within:
            status = "holds"
        elif gap is not None and abs(gap.mean) - gap.half > self.within:
            status = "does not hold"
        stopped = any(results.stopped(arm, self.figure) for arm in self.arms)
        return self.found(status, f"{evidence}, tolerance {self.within:g}", stopped=stopped)


@register("beyond")
@dataclasses.dataclass(frozen=True)
class Beyond(Claim):
    """An arm's figure lies above (or below) a bound.

    Args:
        arm: whose figure.
        figure: which.
        above: the bound, or
        below: the bound.
        noise: half-width to assume on one seed.
        level: whether another backbone would move the figure; False near chance.
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

    def verdict(self, results: Results) -> Verdict:
        """On which side the interval lies."""
        mean = interval(results.values(self.arm, self.figure), self.noise)
        status: Status = "undecided"
        if mean is not None and self.above is not None:
            status = mean.status(self.above)
        elif mean is not None and self.below is not None:
            status = dataclasses.replace(mean, mean=-mean.mean).status(-self.below)
        numbers = told(mean, results, (self.arm,), self.figure)
        bound = self.below if self.above is None else self.above
        stopped = bool(results.stopped(self.arm, self.figure))
        return self.found(status, f"{self.arm}, {self.figure}: {numbers}, bound {bound:g}", stopped=stopped)


@register("all")
@dataclasses.dataclass(frozen=True)
class All(Claim):
    """Several claims at once.

    Args:
        parts: all must hold.
    """

    parts: tuple[Claim, ...]

    def verdict(self, results: Results) -> Verdict:
        """Holds if every part does; does not hold if any part does not."""
        parts = [part.verdict(results) for part in self.parts]
        return self.found(
            joint([v.status for v in parts]), "; ".join(f"[{v.status}] {v.evidence}" for v in parts), parts
        )


@dataclasses.dataclass(frozen=True)
class Judged(Claim):
    """A rule of its own, for claims that no other form fits.

    Args:
        rule: from results to a status and the numbers it rests on.
    """

    rule: Rule

    def verdict(self, results: Results) -> Verdict:
        """As the rule says."""
        return self.found(*self.rule(results))


def ruled(claim: Claim, rule: Rule) -> Judged:
    """The same claim, judged by a rule around it."""
    return Judged(claim.text, rule, reading=claim.reading, limit=claim.limit)


def told(found: SeedInterval | None, results: Results, arms: Iterable[str], figure: str) -> str:
    """An interval in words, with the trainings that stopped before they had the figure."""
    stops = [f"{arm} stopped in seed {seed}" for arm in arms for seed in results.stopped(arm, figure)]
    return ", ".join([*([str(found)] if found else []), *stops]) or NOT_RUN
