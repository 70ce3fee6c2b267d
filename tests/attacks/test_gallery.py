"""Sums over a gallery: exact, and in memory that does not grow with it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from attack_cases import seeded
from torch import Tensor

from holdfast.attacks.references import gallery_sum
from holdfast.sphere import distances
from peak_memory import PEAK, needs_proc

MEASURE = f"""{PEAK}
import torch
from holdfast import attacks
draw = torch.Generator().manual_seed(0)
known = attacks.References(torch.randn(60502, 128, generator=draw), torch.arange(60502) // 5)
z = torch.nn.functional.normalize(known.vectors[:100] + 0.1 * torch.randn(100, 128, generator=draw), dim=1)
names = ("qa+", "qa-", "ca+", "gtt", "ltm", "uniformity")
goals = [attacks.build(name).bind(known, torch.arange(100), draw) for name in names]
before = peak()
for goal in goals:
    moved = z.clone().requires_grad_()
    torch.autograd.grad(goal.loss(moved).sum(), moved)
    goal.measure(moved.detach())
print(peak() - before)
"""


def test_value_and_gradient_equal_one_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    items = torch.randn(50, 3, generator=seeded(), dtype=torch.float64)
    z = torch.randn(7, 3, generator=seeded(1), dtype=torch.float64).requires_grad_()

    def term(moved: Tensor, block: slice) -> Tensor:
        return distances(moved, items[block]).sin().sum(1)

    monkeypatch.setattr("holdfast.metrics.base.BLOCK", 7 * 8)
    upstream = torch.arange(7.0, dtype=torch.float64)
    expected = term(z, slice(None))
    found = gallery_sum(z, 50, term)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gallery_sum(z.detach(), 50, term), expected.detach())
    torch.testing.assert_close(
        torch.autograd.grad((found * upstream).sum(), z)[0], torch.autograd.grad((expected * upstream).sum(), z)[0]
    )


@needs_proc
def test_largest_gallery_fits() -> None:
    """One matrix of 100 × 60,502 is 23 MB, and a graph keeps about ten; blocks of 2²² numbers are 16 MB."""
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 400
