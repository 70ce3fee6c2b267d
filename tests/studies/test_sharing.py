"""Outcomes of an arm that several studies have."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from small_study import FIGURE, SMALL, plan, registered, results

from holdfast_studies.base import Study
from holdfast_studies.claims import Ordered
from holdfast_studies.jobs import Arm
from holdfast_studies.results import Results
from holdfast_studies.sharing import shared

EMPTY = Results(outcomes={})


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with registered():
        yield


def renamed(**changed: object) -> Study:
    """The same arms by other names, as another study."""
    arms = [Arm(name.upper(), job.job) for name, job in zip(("high", "low"), plan("pocket").arms, strict=True)]
    claims = [Ordered("high is above low", ("HIGH", "LOW"), FIGURE, noise=0.1)]
    whole = dataclasses.replace(plan("pocket"), **{"arms": arms, "claims": claims, "drawings": (), **changed})
    return dataclasses.replace(SMALL, id="X8", plan=lambda _: whole)


def test_an_equal_arm_brings_the_seeds_that_are_missing() -> None:
    own = Results(outcomes={"HIGH": results(high=5.0, seeds=1).outcomes["high"]})
    found = shared(renamed(), "pocket", own, [(renamed(), own), (SMALL, results())])
    assert found.values("HIGH", FIGURE) == [5.0, 2.01, 2.02], "its own seed stays"
    assert found.values("LOW", FIGURE) == results().values("low", FIGURE)


def test_the_first_study_that_has_a_seed_is_asked() -> None:
    found = shared(renamed(), "pocket", EMPTY, [(SMALL, results(seeds=1)), (SMALL, results(high=9.0))])
    assert found.values("HIGH", FIGURE) == [2.0, 9.01, 9.02]


def test_another_job_brings_nothing() -> None:
    other = dataclasses.replace(SMALL, plan=lambda _: plan("paper"))
    assert not any(shared(renamed(), "pocket", EMPTY, [(other, results())]).outcomes.values())


@pytest.mark.parametrize(
    "asks",
    [
        {"columns": {"more": "constant/more"}},
        {"claims": [Ordered("high has more", ("HIGH", "LOW"), "constant/more", noise=0.1)]},
    ],
    ids=["shown", "judged"],
)
def test_an_outcome_without_a_figure_that_is_asked_for_stays_away(asks: dict[str, object]) -> None:
    assert not any(shared(renamed(**asks), "pocket", EMPTY, [(SMALL, results())]).outcomes.values())
