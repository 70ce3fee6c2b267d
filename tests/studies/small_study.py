"""A study of two computations that take no time, for tests of everything around studies."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast_studies import base, probes
from holdfast_studies.claims import Claim, Ordered
from holdfast_studies.drawings import Bars, Curves, Drawing
from holdfast_studies.jobs import Arm, Computation, Probe, Scale
from holdfast_studies.results import Outcome, Results

FIGURE = "constant/value"


class Small(base.Study):
    """High lies above low."""

    id = "X9"
    source = "Nobody, Table 0"
    published = "high 2, low 1"

    def arms(self, scale: Scale) -> list[Arm]:
        data = None if scale == "pocket" else "cub"
        probe = {name: Probe(function="constant", arguments={"value": v}) for name, v in (("high", 2.0), ("low", 1.0))}
        return [Arm(name=name, job=Computation(measure=found, data=data)) for name, found in probe.items()]

    def claims(self, scale: Scale) -> list[Claim]:
        return [Ordered(text="high is above low", arms=("high", "low"), figure=FIGURE, noise=0.1)]

    def columns(self, scale: Scale) -> dict[str, str]:
        return {"value": FIGURE}

    def drawings(self, scale: Scale) -> list[Drawing]:
        return [
            Bars(title="Values", arms=("high", "low"), figures={"value": FIGURE}, unit=""),
            Curves(title="Paths", arms=("high", "low"), series="constant/path", x="step", y="value"),
        ]

    def notes(self, scale: Scale) -> str:
        return "Nothing is learnt in HM[S,LGA](&ICS)."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constant(probes.ProbeFunction):
    value: float

    def __call__(self, scene: probes.Scene) -> probes.Found:
        path = [[n, self.value * n] for n in range(5)]
        return probes.Found(figures={"value": self.value + scene.seed / 8}, series={"path": path, "unused": [1.0]})


@contextmanager
def registered() -> Iterator[Small]:
    """The study and its probe, known by name for a while."""
    base.names(), probes.names()  # discovered before, or the first look-up would come after ours
    base.registry._members["X9"] = Small
    probes.registry._members["constant"] = Constant
    try:
        yield Small()
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
