"""Spoilt images, dying threads and processes, jumping clocks, no memory: the run goes on as it was."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fault_commands import trained
from fault_images import WAYS, bad_images, dying_decoders
from fault_memory import out_of_memory
from fault_outcomes import failures
from fault_processes import clock_jumps, stop_requests, two_commands, two_processes
from fault_ranks import DEATHS, dying_ranks, stopped_ranks

NOTICED_AT_ONCE = "SIGKILL of process 1"


def test_images_that_vanish_or_turn_unreadable(tmp_path: Path) -> None:
    assert failures(bad_images(tmp_path, random.Random(3), WAYS[::2])) == []


def test_a_decoder_that_dies(tmp_path: Path) -> None:
    assert failures(dying_decoders(tmp_path, random.Random(3))) == []


def test_requests_to_stop_at_random_moments(tmp_path: Path) -> None:
    assert failures(stop_requests(tmp_path, random.Random(3), 4)) == []


def test_two_processes_on_one_folder(tmp_path: Path) -> None:
    assert failures(two_processes(tmp_path)) == []


@pytest.mark.slow
def test_two_audits_and_two_additions_to_an_index(tmp_path: Path) -> None:
    assert failures(two_commands(tmp_path, trained(tmp_path / "model"))) == []


@pytest.mark.slow
def test_memory_that_runs_out(tmp_path: Path) -> None:
    assert failures(out_of_memory(tmp_path, random.Random(3), trained(tmp_path / "model"))) == []


def test_one_of_two_processes_is_killed(tmp_path: Path) -> None:
    assert failures(dying_ranks(tmp_path, random.Random(3), (NOTICED_AT_ONCE,))) == []


def test_one_of_two_processes_is_asked_to_stop(tmp_path: Path) -> None:
    assert failures(stopped_ranks(tmp_path, random.Random(3), ("SIGTERM of one of two processes",))) == []


@pytest.mark.slow
@pytest.mark.parametrize("death", sorted({*DEATHS} - {NOTICED_AT_ONCE}))
def test_one_of_two_processes_dies(death: str, tmp_path: Path) -> None:
    assert failures(dying_ranks(tmp_path, random.Random(3), (death,))) == []


@pytest.mark.slow
def test_clocks_that_jump(tmp_path: Path) -> None:
    assert failures(clock_jumps(tmp_path, random.Random(3))) == []
