"""Differences between arms with what they may be wrong by."""

from __future__ import annotations

import dataclasses
import statistics

from holdfast_studies.results import Results
from holdfast_studies.verdict import ONE_SEED, Status

T95 = (
    *(6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782),
    *(1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714),
)
"""One-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom; more than there are count as the last."""


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
