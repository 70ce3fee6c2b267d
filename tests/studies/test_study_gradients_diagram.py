"""The probe `triplet-diagram` against plain loops."""

from __future__ import annotations

import math

import pytest
import torch

from holdfast.data import load
from holdfast.errors import HoldfastError
from holdfast.gradients.explanation import Diagram
from holdfast.models import Embedder
from holdfast.studies.measures.triplet_diagram import TripletDiagram
from holdfast.studies.probes import Scene

CPU = torch.device("cpu")


def test_shares_are_those_of_a_plain_loop() -> None:
    draws = torch.Generator().manual_seed(3)
    near = torch.rand(500, generator=draws).double() * 1.2 - 0.2
    far = torch.rand(500, generator=draws).double() * 1.4 - 0.4
    found = TripletDiagram(bound=0.6, bins=10).shares(Diagram(near, far))
    points = list(zip(near.tolist(), far.tolist(), strict=True))
    assert found["corner"] == pytest.approx(100 * sum(p > 0.6 and n > 0.6 for p, n in points) / 500)
    assert found["edge"] == pytest.approx(100 * sum(p > 0.6 for p, _ in points) / 500)
    assert found["near"] == pytest.approx(math.fsum(p for p, _ in points) / 500)
    assert found["far"] == pytest.approx(math.fsum(n for _, n in points) / 500)
    common = 0
    for edge in range(10):
        low, high = -1 + 0.2 * edge, -0.8 + 0.2 * edge
        common += min(sum(low <= p < high for p, _ in points), sum(low <= n < high for _, n in points))
    assert found["overlap"] == pytest.approx(100 * common / 500)


def test_apart_and_alike() -> None:
    probe = TripletDiagram()
    apart = probe.shares(Diagram(torch.full((4,), 0.9), torch.full((4,), -0.9)))
    assert apart["overlap"] == 0
    assert apart["corner"] == 0
    assert apart["edge"] == 100
    alike = probe.shares(Diagram(torch.full((4,), 1.0), torch.full((4,), 1.0)))
    assert alike["overlap"] == alike["corner"] == 100


def test_diagrams_of_a_model() -> None:
    table = load("glyphs")
    table = table.subset([*range(60), *range(len(table) - 60, len(table))])
    torch.manual_seed(0)
    model = Embedder("conv-small", dim=8)
    scene = Scene(seed=1, device=CPU, model=model, table=table)
    found = TripletDiagram(points=25)(scene)
    assert {key.split("/")[0] for key in found.figures} == {"train", "test"}
    for split in ("train", "test"):
        points = found.series[split]
        assert len(points) == 25
        assert all(-1 <= value <= 1 + 1e-5 for point in points for value in point)
    assert TripletDiagram(points=25)(scene) == found


def test_a_diagram_needs_a_model() -> None:
    with pytest.raises(HoldfastError, match="measure of a training"):
        TripletDiagram()(Scene(seed=0, device=CPU))
