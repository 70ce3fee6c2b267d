"""Figures of a study by arm and seed, as tables and claims read them."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from typing import Any

from holdfast.run_files import finite

NOT_RUN = "not run"
"""What stands in the place of a figure that nobody has yet."""


ON_TEST = "test R@1"
"""The series of R@1 on the test classes over epochs, where a training looked."""

BEST_ON_TEST = "best on test"
"""Before the names of figures of the best epoch on the test classes, as papers publish them."""


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
    """

    seed: int
    figures: dict[str, float | None]
    series: dict[str, Any] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    place: dict[str, Any] = dataclasses.field(default_factory=dict)
    stopped: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """Outcomes by arm; arms without any were not run."""

    outcomes: Mapping[str, list[Outcome]]

    def by_seed(self, arm: str, figure: str) -> dict[int, float]:
        """The known values of a figure."""
        found = {outcome.seed: finite(outcome.figures.get(figure)) for outcome in self.outcomes.get(arm, [])}
        return {seed: value for seed, value in found.items() if value is not None}

    def stopped(self, arm: str, figure: str) -> list[int]:
        """Seeds whose training ended early, so that they never got the figure."""
        known = self.by_seed(arm, figure)
        return sorted(o.seed for o in self.outcomes.get(arm, []) if o.stopped and o.seed not in known)

    def values(self, arm: str, figure: str) -> list[float]:
        """The known values of a figure, in order of seeds."""
        found = self.by_seed(arm, figure)
        return [found[seed] for seed in sorted(found)]

    def mean(self, arm: str, figure: str) -> float | None:
        """Over seeds; None where nothing is known."""
        values = self.values(arm, figure)
        return statistics.fmean(values) if values else None

    def series(self, arm: str, name: str) -> Any | None:
        """A curve or histogram of the first seed that has it."""
        known = (outcome.series.get(name) for outcome in self.outcomes.get(arm, []))
        return next((found for found in known if found is not None), None)
