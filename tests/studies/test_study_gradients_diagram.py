"""The probe `triplet-diagram` against plain loops."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import yaml

import holdfast
from holdfast.attacks.frozen import frozen
from holdfast.data import load
from holdfast.errors import DataError
from holdfast.gradients import Diagram
from holdfast.models import Embedder
from holdfast.training import loop
from holdfast_studies.measures.embedded import TripletDiagram, last_batches
from holdfast_studies.probes import Scene

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


def test_training_batches_are_those_that_training_drew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = {
        "data": {"name": "glyphs", "characters": 20, "per_class": 6},
        "model": {"backbone": "conv-tiny", "dim": 8},
        "batch": {"classes": 5, "per_class": 3},
        "augment": {"name": "random-crop", "padding": 2},
        "loss": {"name": "gradient"},
        "epochs": 3,
        "precision": "float32",
        "seed": 4,
    }
    drawn = []
    real = loop.load_batch
    monkeypatch.setattr(loop, "load_batch", lambda *given: drawn.append(real(*given)) or drawn[-1])
    run = holdfast.train(recipe, out=tmp_path / "run", device="cpu")
    plain = yaml.safe_load((run.folder / "recipe.yaml").read_text())
    model = Embedder.from_pretrained(str(run.folder / "last"))
    scene = Scene(seed=0, device=CPU, model=model, table=load(plain["data"]), run=plain)
    seen = list(last_batches(scene, 2))
    assert len(seen) == 2 * len(drawn) // 3
    model.train()
    for batch, (z, labels, rows) in zip(drawn[-len(seen) :], seen, strict=True):
        assert torch.equal(rows, batch.numbers)
        assert torch.equal(labels, batch.labels)
        with torch.no_grad(), frozen(model, "keep"):
            torch.testing.assert_close(z, model(batch.images))
    model.eval()

    found = TripletDiagram(epochs=2, bound=0.3)(scene)
    near, far = [], []
    for z, labels, rows in seen:
        s = z @ z.T
        for a in range(len(z)):
            near.append(max(float(s[a, j]) for j in range(len(z)) if labels[j] == labels[a] and rows[j] != rows[a]))
            far.append(max(float(s[a, j]) for j in range(len(z)) if labels[j] != labels[a]))
    assert found.figures["batches/near"] == pytest.approx(math.fsum(near) / len(near), abs=1e-6)
    edge = sum(s_ap > 0.3 for s_ap in near) / len(near)
    assert found.figures["batches/edge"] == pytest.approx(100 * edge, abs=100 / len(near))
    assert {key.split("/")[0] for key in found.figures} == {"train", "test", "batches"}
    assert not model.training


def test_a_diagram_needs_a_model() -> None:
    with pytest.raises(DataError, match="needs a model"):
        TripletDiagram()(Scene(seed=0, device=CPU))
