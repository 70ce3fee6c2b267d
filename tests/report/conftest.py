"""Runs whose exhibits are collected once."""

from __future__ import annotations

from pathlib import Path

import pytest
from collected_runs import HOSTILE, csv_run

from holdfast.report import collect

NAMES = (*HOSTILE, *(f"class {number}" for number in range(6)))


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten classes, some with names that attack the page, six images each."""
    counts = {"train": {"other": 3, "another": 2}, "test": dict.fromkeys(NAMES, 6)}
    run = csv_run(tmp_path_factory.mktemp("shown"), counts)
    collect(run)
    return run


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Queries that search a gallery."""
    names = [f"item {number}" for number in range(8)]
    counts = {"query": dict.fromkeys(names, 2), "gallery": dict.fromkeys(names, 3)}
    run = csv_run(tmp_path_factory.mktemp("shop"), counts)
    collect(run)
    return run
