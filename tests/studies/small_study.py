"""A study of two computations that take no time, for tests of everything around studies."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from holdfast_studies import base, probes
from holdfast_studies.claims import Ordered
from holdfast_studies.drawing import Bars, Curves
from holdfast_studies.jobs import Arm, Computation, Probe, Scale
from holdfast_studies.results import Outcome, Results

FIGURE = "constant/value"


def plan(scale: Scale) -> base.Plan:
    """High lies above low."""
    data = None if scale == "pocket" else "cub"
    probes = {name: Probe("constant", {"value": value}) for name, value in (("high", 2.0), ("low", 1.0))}
    return base.Plan(
        [Arm(name, Computation(measure=found, data=data)) for name, found in probes.items()],
        [Ordered("high is above low", ("high", "low"), FIGURE, noise=0.1)],
        [
            Bars("Values", ("high", "low"), {"value": FIGURE}, unit=""),
            Curves("Paths", ("high", "low"), "constant/path", "step", "value"),
        ],
        {"value": FIGURE},
        "Nothing is learnt in HM[S,LGA](&ICS).",
    )


SMALL = base.Study(id="X9", title="High lies above low", source="Nobody, Table 0", published="high 2, low 1", plan=plan)


def with_arms(arms: Callable[[Scale], Sequence[Arm]], name: str = "X9") -> base.Study:
    """The study with other arms."""
    return dataclasses.replace(SMALL, id=name, plan=lambda scale: dataclasses.replace(plan(scale), arms=arms(scale)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constant(probes.ProbeFunction):
    value: float

    def __call__(self, scene: probes.Scene) -> probes.ProbeResult:
        path = [[n, self.value * n] for n in range(5)]
        return probes.ProbeResult(
            figures={"value": self.value + scene.seed / 8}, series={"path": path, "unused": [1.0]}
        )


@contextmanager
def registered() -> Iterator[base.Study]:
    """The study and its probe, known by name for a while."""
    base.names(), probes.names()  # discovered before, or the first look-up would come after ours
    base.registry._members["X9"] = functools.wraps(plan)(lambda: SMALL)
    probes.registry._members["constant"] = Constant
    try:
        yield SMALL
    finally:
        del base.registry._members["X9"], probes.registry._members["constant"]


def results(high: float = 2.0, low: float = 1.0, seeds: int = 3) -> Results:
    """Made-up results."""

    def outcomes(value: float) -> list[Outcome]:
        place = {"device": "CPU", "versions": {"holdfast": "0"}}
        series = {"constant/path": [[0, value], [1, value]]}
        figures: list[dict[str, float | None]] = [{FIGURE: value + n / 100, "R@1": 50.0} for n in range(seeds)]
        return [
            Outcome(seed=n, figures=found, series=series, seconds=1.5, place=place) for n, found in enumerate(figures)
        ]

    return Results(outcomes={"high": outcomes(high), "low": outcomes(low)})
