"""Several processes train the model that one trains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from several import CASES, free_port, record_all, recorded

from holdfast.processes import ALONE

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
WORLD = 2


@pytest.fixture(scope="module")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    torch.multiprocessing.spawn(record_all, (WORLD, free_port(), str(folder)), nprocs=WORLD)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_two_processes_learn_what_one_learns(case: str, shared_runs: Path) -> None:
    expected = recorded(case, ALONE)
    assert any(name.startswith("gradient") and tensor.abs().max() > 1e-4 for name, tensor in expected.items())
    for rank in range(WORLD):
        found = torch.load(shared_runs / f"{case}-{rank}.pt", weights_only=True)
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, rtol=1e-9, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}")
