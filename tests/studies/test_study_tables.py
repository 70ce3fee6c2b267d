"""Tables of arms, as text."""

from __future__ import annotations

import dataclasses

import pytest
from small_study import FIGURE, SMALL, results, with_arms

from holdfast_studies.results import Outcome, Results, spread
from holdfast_studies.tables import arm_table, duration, inert, inert_table, markdown


@pytest.mark.parametrize(
    ("values", "figure", "text"),
    [
        ([57.25, 57.75], "R@1", "57.5 ± 0.4"),
        ([3.0], "coarse/R@1", "3.0"),
        ([29.96], "ers-fixed/ERS", "30.0"),
        ([71.0], "log/validation R@1", "71.0"),
        ([0.1464, 0.1466], "parts/gaussian", "0.147 ± 0.000"),
        ([0.00312], "x/distance", "0.00312"),
        ([3.12e-5, 3.14e-5], "x/distance", "3.1e-05 ± 1.4e-07"),
        ([1234.5], "log/seconds", "1,234"),
        ([0.0, 0.0], "x/y", "0.00 ± 0.00"),
        ([-0.164], "h/hardness", "-0.164"),
        ([], "R@1", "-"),
    ],
)
def test_digits_follow_the_figure(values: list[float], figure: str, text: str) -> None:
    assert spread(values, figure) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.21, "3.2 s"), (45.4, "45 s"), (720, "12 min"), (12_600, "3.5 h"), (0.0, "0 s")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_row_per_arm_with_seeds_and_time() -> None:
    planned = {"high": [0, 1, 2], "low": [0, 1, 2, 3]}
    headings, rows = arm_table(SMALL, "pocket", results(), planned)
    assert headings == ["arm", "value", "setting", "seeds", "time per seed"]
    assert rows == [
        ["high", "2.01 ± 0.01", "the paper's", "3", "1.5 s"],
        ["low", "1.01 ± 0.01", "the paper's", "3 of 4", "1.5 s"],
    ]


def test_arms_not_run_and_runs_that_stopped_say_so() -> None:
    stopped = Outcome(seed=0, figures={"collapsed": 1.0}, stopped="the model has collapsed")
    fine = dataclasses.replace(results().outcomes["high"][1])
    found = Results(outcomes={"high": [], "low": [stopped, fine]})
    _, rows = arm_table(SMALL, "pocket", found, {"high": [0, 1], "low": [0, 1]})
    assert rows[0][:4] == ["high", "not run", "the paper's", "0 of 2"]
    assert rows[1][:4] == ["low", "2.01", "the paper's", "2, 1 stopped: the model has collapsed"]


def outcome(seed: int, device: str, seconds: float, value: float | None = 2.0) -> Outcome:
    return Outcome(seed=seed, figures={FIGURE: value}, seconds=seconds, place={"device": device})


def test_arms_of_several_readings_say_theirs() -> None:
    high, low = SMALL.arms("pocket")
    study = with_arms(lambda _: [dataclasses.replace(high, reading="ε in pixels"), low])
    headings, rows = arm_table(study, "pocket", results(), {"high": [0], "low": [0]})
    assert headings[2:4] == ["reading", "setting"]
    assert [row[2] for row in rows] == ["ε in pixels", "any"]


def test_a_figure_that_some_seeds_lack_says_how_many_have_it() -> None:
    stopped = Outcome(seed=3, figures={"collapsed": 1.0}, stopped="the model has collapsed")
    some = [outcome(0, "CPU", 1.0, None), outcome(1, "CPU", 1.0), outcome(2, "CPU", 1.0)]
    found = Results(outcomes={"high": some, "low": [*some[1:], stopped]})
    _, rows = arm_table(SMALL, "pocket", found, {"high": [0, 1, 2], "low": [1, 2, 3]})
    assert [row[1] for row in rows] == ["2.00 ± 0.00 (2)", "2.00 ± 0.00"]
    one = Results(outcomes={"high": some[:2], "low": some[:1]})
    _, rows = arm_table(SMALL, "pocket", one, {"high": [0, 1], "low": [0]})
    assert [row[1] for row in rows] == ["2.00 (1)", "-"]


def test_times_of_two_devices_are_not_averaged() -> None:
    mixed = [outcome(0, "GPU", 10.0), outcome(1, "GPU", 20.0), outcome(2, "CPU", 500.0)]
    found = Results(outcomes={"high": mixed, "low": mixed[2:]})
    _, rows = arm_table(SMALL, "pocket", found, {"high": [0, 1, 2], "low": [2]})
    assert [row[-1] for row in rows] == ["15 s, GPU", "8 min, CPU"]
    _, rows = arm_table(SMALL, "pocket", Results(outcomes={"high": mixed[:2]}), {"high": [0, 1]})
    assert [row[-1] for row in rows] == ["15 s", ""], "one device needs no name"


def test_a_training_that_stopped_early_makes_no_time_shorter() -> None:
    stopped = Outcome(seed=0, figures={}, stopped="the model has collapsed", place={"device": "CPU"})
    found = Results(outcomes={"high": [stopped, outcome(1, "CPU", 20.0)], "low": [stopped]})
    _, rows = arm_table(SMALL, "pocket", found, {"high": [0, 1], "low": [0]})
    assert [row[-1] for row in rows] == ["20 s", ""]


def test_markdown_is_left_as_it_is_written() -> None:
    assert inert("HM[S,LGA](&ICS)\n a<b, a < b") == "HM[S,LGA]\\(&ICS) a&lt;b, a < b"
    text = markdown(inert_table((["arm", "a|b"], [["x", "1"]])))
    assert text.splitlines() == ["| arm | a\\|b |", "| --- | ---: |", "| x | 1 |"]


def test_hostile_names_stay_text_in_markdown() -> None:
    evil = "<script>x</script> | [a](javascript:1)\n# b <javascript:1>"
    line = markdown(inert_table((["arm"], [[evil]]))).splitlines()[-1]
    assert "<s" not in line
    assert "<j" not in line
    assert "](" not in line
    assert line.count("|") - line.count("\\|") == 2
