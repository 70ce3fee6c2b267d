"""Killed again and again, a training ends like one that never was: every weight to the bit, every line of its log."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fault_kills import kill_training
from fault_outcomes import failures
from fault_runs import REGIMES

KILLS = 3


@pytest.mark.parametrize("regime", REGIMES)
def test_a_killed_training_ends_like_a_whole_one(regime: str, tmp_path: Path) -> None:
    outcomes = kill_training(tmp_path, random.Random(regime), regime, KILLS)
    assert len(outcomes) == KILLS
    assert failures(outcomes) == []


def test_at_least_twenty_kills_in_one_run_of_the_tests() -> None:
    assert KILLS * len(REGIMES) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("regime", REGIMES)
def test_a_training_killed_many_times(regime: str, seed: int, tmp_path: Path) -> None:
    assert failures(kill_training(tmp_path, random.Random(f"{regime} {seed}"), regime, 12)) == []
