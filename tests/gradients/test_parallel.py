"""Under data-parallel training the gradients of a rule are averaged over processes like any other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from gradient_oracle import batch, gradient_of
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.parallel import DistributedDataParallel

from holdfast import gradients
from meeting import side_by_side

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")


def weight_gradient(model: nn.Module, weight: nn.Parameter, rank: int) -> Tensor:
    z, labels = batch(rank)
    model.zero_grad()
    gradients.named("best")(normalize(model(z), dim=1), labels).backward()
    assert weight.grad is not None
    return weight.grad.clone()


def worker(rank: int, folder: str) -> None:
    if Path("/sys/class/net/lo").exists():  # both processes are here; the host's name need not resolve
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.manual_seed(0)
    layer = nn.Linear(5, 4, dtype=torch.float64)
    found = weight_gradient(DistributedDataParallel(layer), layer.weight, rank)
    torch.save(found, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    side_by_side(worker, (str(tmp_path),), 2)
    torch.manual_seed(0)
    layer = nn.Linear(5, 4, dtype=torch.float64)
    expected = (weight_gradient(layer, layer.weight, 0) + weight_gradient(layer, layer.weight, 1)) / 2
    assert expected.norm() > 1e-4
    for rank in range(2):
        torch.testing.assert_close(torch.load(tmp_path / f"{rank}.pt", weights_only=True), expected)


def test_the_gradient_passes_on_through_the_network() -> None:
    z, labels = batch(0)
    raw = (3 * z).requires_grad_()
    gradients.named("best")(normalize(raw, dim=1), labels).backward()
    at_embedding = gradient_of(gradients.named("best"), z, labels)
    across = (at_embedding - (at_embedding * z).sum(1, keepdim=True) * z) / 3
    torch.testing.assert_close(raw.grad, across)
