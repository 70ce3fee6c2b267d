"""Several processes train the model that one trains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from several import CASES, MORE, record_all, recorded
from torch import Tensor

from meeting import free_port, side_by_side

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
WORLD = 2
COMMUNICATED = "communicated"


@pytest.fixture(scope="module")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return spawned(tmp_path_factory, CASES)


@pytest.fixture(scope="module")
def more_shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return spawned(tmp_path_factory, MORE)


def spawned(factory: pytest.TempPathFactory, cases: dict[str, object]) -> Path:
    folder = factory.mktemp("several")
    side_by_side(record_all, (WORLD, free_port(), str(folder), list(cases)), WORLD)
    return folder


def of_process(folder: Path, case: str, rank: int) -> dict[str, Tensor]:
    found: dict[str, Tensor] = torch.load(folder / f"{case}-{rank}.pt", weights_only=True)
    return found


def same(case: str, folder: Path) -> None:
    expected = recorded(case)
    assert any(name.startswith("gradient") and tensor.abs().max() > 1e-4 for name, tensor in expected.items())
    for rank in range(WORLD):
        found = of_process(folder, case, rank)
        assert {name for name in found if COMMUNICATED not in name} == expected.keys()
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, rtol=1e-9, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("case", CASES)
def test_two_processes_learn_what_one_learns(case: str, shared_runs: Path) -> None:
    same(case, shared_runs)


@pytest.mark.slow
@pytest.mark.parametrize("case", MORE)
def test_two_processes_learn_what_one_learns_in_other_ways_too(case: str, more_shared_runs: Path) -> None:
    same(case, more_shared_runs)


@pytest.mark.parametrize(("case", "embedded"), [("standard-mining", 15), ("standard-arcface", 15), ("hm-mining", 60)])
def test_what_travels_is_what_the_formula_says(case: str, embedded: int, shared_runs: Path) -> None:
    found = of_process(shared_runs, case, 0)
    dim, features = found["model head.weight"].shape
    channels = [len(tensor) for name, tensor in found.items() if name.endswith("running_mean")]
    updates = sum(tensor.numel() for name, tensor in found.items() if name.startswith("gradient")) // 3
    passes = int(found["0 passes"])
    numbers = embedded * (dim + features) + WORLD * (2 * sum(channels) + len(channels)) + 2 * sum(channels) + updates
    flags = 4 * (passes - 1)  # whether all are done, at every step of crafting
    assert int(found[f"0 {COMMUNICATED}"]) == 8 * numbers + flags
