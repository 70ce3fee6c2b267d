"""Figures of a study by arm and seed, as tables and claims read them, and differences with their intervals."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from holdfast.run_files import finite

Status: TypeAlias = Literal["holds", "does not hold", "undecided"]

NOT_RUN = "not run"
"""What stands in the place of a figure that nobody has yet."""

ON_TEST = "test R@1"
"""The series of R@1 on the test classes over epochs, where a training looked."""

BEST_ON_TEST = "best on test"
"""Before the names of figures of the best epoch on the test classes, as papers publish them."""

ONE_SEED = "(1 seed)"
"""A sign in the evidence, as that and a status are all that a rule of its own gives."""

PERCENT = re.compile(r"(R@\d+|mAP(@[RC])?|NMI\+?|ERS|[CQ]A[+-]|ES:R|LTM|GTM|GTT)$|(^| )R@\d+")
"""Figures in percent: one decimal. The others get three significant digits."""

T95 = (
    *(2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782),
    *(1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714),
)
"""One-sided 95 % quantiles of Student's t for 2, 3, ... degrees of freedom; more than there are count as the last."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one cell.

    Args:
        seed: of everything random in it.
        figures: by name; None where undefined.
        series: lists of numbers or points for figures (curves, histograms), by name.
        seconds: how long it took.
        place: device and versions it ran with.
        stopped: why it ended early (a collapse, a loss that is no number), None where it did not.
        flags: prefix of an audit's figures → why these cannot be trusted, by the names of its flags.
    """

    seed: int
    figures: dict[str, float | None]
    series: dict[str, Any] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    place: dict[str, Any] = dataclasses.field(default_factory=dict)
    stopped: str | None = None
    flags: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def known(self, figure: str) -> float | None:
        """A figure that is a number."""
        return finite(self.figures.get(figure))

    @property
    def device(self) -> str:
        """What it ran on."""
        return str(self.place.get("device", "unknown hardware"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """Outcomes by arm; arms without any were not run."""

    outcomes: Mapping[str, list[Outcome]]

    def by_seed(self, arm: str, figure: str) -> dict[int, float]:
        """The known values of a figure."""
        found = {outcome.seed: outcome.known(figure) for outcome in self.outcomes.get(arm, [])}
        return {seed: value for seed, value in found.items() if value is not None}

    def stopped(self, arm: str, figure: str) -> list[int]:
        """Seeds whose training ended early, so that they never got the figure."""
        known = self.by_seed(arm, figure)
        return sorted(o.seed for o in self.outcomes.get(arm, []) if o.stopped and o.seed not in known)

    def values(self, arm: str, figure: str) -> list[float]:
        """The known values of a figure, in order of seeds."""
        return [value for _, value in sorted(self.by_seed(arm, figure).items())]

    def mean(self, arm: str, figure: str) -> float | None:
        """Over seeds; None where nothing is known."""
        values = self.values(arm, figure)
        return statistics.fmean(values) if values else None

    def series(self, arm: str, name: str) -> Any | None:
        """A curve or histogram of the first seed that has it."""
        known = (outcome.series.get(name) for outcome in self.outcomes.get(arm, []))
        return next((found for found in known if found is not None), None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedInterval:
    """A mean difference with its half-width.

    Args:
        mean: of the differences.
        half: of the one-sided 95 % interval, or the noise of one seed or two.
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
        return f"{self.mean:+.3g} ± {self.half:.2g} {ONE_SEED if self.seeds == 1 else f'({self.seeds} seeds)'}"


def interval(values: list[float], noise: float) -> SeedInterval | None:
    """The interval of some differences; None where there are none.

    Args:
        values: one per seed.
        noise: half-width to assume where there is one seed only. Of two the spread says next to nothing (t = 6.3, so
            that a second seed would decide less than one): the noise is assumed, over √2, and both must lie within.
    """
    if not values:
        return None
    if len(values) == 1:
        return SeedInterval(mean=values[0], half=noise, seeds=1)
    if len(values) == 2:
        half = max(noise / 2**0.5, abs(values[0] - values[1]) / 2)
    else:
        t = T95[min(len(values) - 2, len(T95)) - 1]
        half = t * statistics.stdev(values) / len(values) ** 0.5
    return SeedInterval(mean=statistics.fmean(values), half=half, seeds=len(values))


def difference(results: Results, more: str, less: str, figure: str, noise: float) -> SeedInterval | None:
    """How far one arm lies above another, seed by seed; None where they share no seed.

    Args:
        results: of all arms.
        more: the arm that is expected to be higher.
        less: the other.
        figure: what is compared.
        noise: half-width to assume where there is one seed only.
    """
    upper, lower = results.by_seed(more, figure), results.by_seed(less, figure)
    return interval([upper[seed] - lower[seed] for seed in sorted(upper.keys() & lower.keys())], noise)


def spread(values: Sequence[float], figure: str) -> str:
    """`57.2 ± 0.4`; one value stands alone, none is a dash."""
    if not values:
        return "-"
    mean = statistics.fmean(values)
    leading = 0 if mean == 0 else int(f"{mean:.2e}".partition("e")[2])
    decimals = 1 if PERCENT.search(figure) else max(0, 2 - leading)
    form = ".1e" if decimals > 5 else f",.{decimals}f"
    return " ± ".join(f"{value:{form}}" for value in (mean, *([statistics.stdev(values)] if len(values) > 1 else [])))
