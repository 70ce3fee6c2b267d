"""What results cost: whose times can be averaged, and what studies took in all."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from holdfast.run_files import finite
from holdfast_studies.jobs import Job, Training
from holdfast_studies.results import Outcome

SECONDS = "log/seconds"
"""The figure that says how long a training took, measures aside."""

Ran: TypeAlias = tuple[Job, Outcome]
"""What a cell did, and what came of it."""


def device(outcome: Outcome) -> str:
    """What it ran on."""
    return str(outcome.place.get("device", "unknown hardware"))


def on_one_device(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those of the device that most ran on, the first among equals: times of two devices have no mean."""
    names = {name for name, _ in Counter(map(device, outcomes)).most_common(1)}
    return [outcome for outcome in outcomes if device(outcome) in names]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spent:
    """The time that cells took, each once.

    Args:
        cells: how many trainings and computations.
        seconds: of them, and of the trainings that they start from where those are known.
        unknown: how many trainings that they start from are not.
    """

    cells: int
    seconds: float
    unknown: int


def spent(own: Iterable[Ran], every: Iterable[Ran]) -> Spent:
    """What some cells took; one that studies share counts once, with its longest measures.

    Args:
        own: the cells.
        every: all cells that are known: those that `own` start from may be arms of other studies.
    """
    cells: dict[str, float] = {}
    starts: set[str] = set()
    for job, outcome in own:
        key = _key(job, outcome.seed)
        cells[key] = max(cells.get(key, 0.0), outcome.seconds)
        if isinstance(job, Training) and job.start is not None:
            starts.add(_key(job.start, outcome.seed))
    starts -= cells.keys()
    trained = {
        _key(job, outcome.seed): seconds
        for job, outcome in every
        if (seconds := finite(outcome.figures.get(SECONDS))) is not None
    }
    known = starts & trained.keys()
    return Spent(
        cells=len(cells),
        seconds=sum(cells.values()) + sum(trained[key] for key in sorted(known)),
        unknown=len(starts - known),
    )


def _key(job: Job, seed: int) -> str:
    """A name that equal cells share, whatever seed a raw file claims."""
    return f"{job.key(0)} {seed}"
