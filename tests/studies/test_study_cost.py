"""What results cost."""

from __future__ import annotations

import dataclasses

from holdfast_studies.jobs import AuditMeasure, Computation, Probe, Training
from holdfast_studies.results import Outcome
from holdfast_studies.tables import on_one_device, spent

START = Training(recipe="pocket", settings={"epochs": 6})
LATER = Training(recipe="pocket", settings={"epochs": 3}, start=START)
LONE = Training(recipe="pocket", settings={"epochs": 4})


def outcome(seed: int, seconds: float, place: str | None = "CPU", trained: float | None = None) -> Outcome:
    figures = {} if trained is None else {"log/seconds": trained}
    return Outcome(seed=seed, figures=figures, seconds=seconds, place={"device": place} if place else {})


def test_times_are_of_the_device_that_most_ran_on() -> None:
    mixed = [outcome(0, 1.0, "GPU"), outcome(1, 9.0), outcome(2, 8.0)]
    assert [one.seed for one in on_one_device(mixed)] == [1, 2]
    assert [one.seed for one in on_one_device(mixed[:2])] == [0], "the first among equals"
    assert on_one_device([]) == []
    assert outcome(0, 1.0, None).device == "unknown hardware"


def test_a_cell_that_studies_share_counts_once_with_its_longest_measures() -> None:
    audited = dataclasses.replace(LONE, measures=(AuditMeasure(),))
    probed = Computation(measure=Probe(function="p"))
    cells = [(LONE, outcome(0, 10.0)), (audited, outcome(0, 13.0)), (LONE, outcome(1, 7.0)), (probed, outcome(0, 1.0))]
    found = spent(cells, cells)
    assert (found.cells, found.seconds, found.unknown) == (3, 21.0, 0)


def test_a_start_of_another_study_counts_once_without_its_measures() -> None:
    own = [(LATER, outcome(0, 5.0)), (dataclasses.replace(LATER, settings={"epochs": 5}), outcome(0, 6.0))]
    start = (START, outcome(0, 50.0, trained=20.0))
    found = spent(own, [*own, start])
    assert (found.cells, found.seconds, found.unknown) == (2, 31.0, 0)


def test_a_start_that_is_an_arm_of_its_own_is_not_counted_twice() -> None:
    own = [(LATER, outcome(0, 5.0)), (START, outcome(0, 50.0, trained=20.0))]
    found = spent(own, own)
    assert (found.cells, found.seconds, found.unknown) == (2, 55.0, 0)


def test_a_start_that_nobody_knows_is_told() -> None:
    own = [(LATER, outcome(0, 5.0)), (LATER, outcome(1, 5.0))]
    found = spent(own, [*own, (START, outcome(1, 50.0, trained=20.0))])
    assert (found.cells, found.seconds, found.unknown) == (2, 30.0, 1)
