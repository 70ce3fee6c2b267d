"""Audits, studies, indexes and vectors come out the same however often their commands are killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fault_commands import kill_audit, kill_embed, kill_index, kill_study, kill_worker, trained
from fault_outcomes import failures


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("strike", [kill_audit, kill_index, kill_embed])
def test_a_killed_command_is_repeated(strike: object, model: Path, tmp_path: Path) -> None:
    assert callable(strike)
    outcomes = strike(tmp_path, random.Random(1), 2, model)
    assert len(outcomes) >= 2
    assert failures(outcomes) == []


def test_a_killed_study_goes_on(tmp_path: Path) -> None:
    assert failures(kill_study(tmp_path, random.Random(1), 2)) == []


@pytest.mark.slow
def test_a_worker_of_a_study_dies(tmp_path: Path) -> None:
    assert failures(kill_worker(tmp_path)) == []
