from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from holdfast.errors import DataError
from holdfast.models import Embedder
from holdfast.models.bank import SetStart
from holdfast_studies.measures.models import BatchNormDrift
from holdfast_studies.probes import Scene


def model(*sets: str, noise: float = 0.5) -> Embedder:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 5, 3), nn.BatchNorm2d(5), nn.Flatten(), nn.Linear(20, 6)
    )
    made = Embedder.wrap(net, size=6, canvas=6)
    for name in sets:
        made.bank.add(made.backbone, SetStart(name, noise))
    return made


def scene(given: Embedder | None) -> Scene:
    return Scene(seed=0, device=torch.device("cpu"), model=given)


def test_gaps_of_all_pairs_layer_by_layer() -> None:
    given = model("stax", "mtax")
    found = BatchNormDrift()(scene(given))
    layers = {
        "clean": [given.backbone[1], given.backbone[3]],  # type: ignore[index]
        "mtax": list(given.bank.sets["mtax"]),  # type: ignore[call-overload]
        "stax": list(given.bank.sets["stax"]),  # type: ignore[call-overload]
    }
    pairs = ("clean-mtax", "clean-stax", "mtax-stax")
    assert set(found.figures) == set(found.series) == {f"{k}/{pair}" for k in ("weight", "bias") for pair in pairs}
    for key, mean in found.figures.items():
        kind, pair = key.split("/")
        gaps = []
        for one, other in zip(*(layers[name] for name in pair.split("-")), strict=True):
            u, v = getattr(one, kind).tolist(), getattr(other, kind).tolist()
            apart = math.sqrt(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)))
            gaps.append(apart / math.sqrt((sum(a * a for a in u) + sum(b * b for b in v)) / 2))
        assert mean == pytest.approx(sum(gaps) / 2, rel=1e-9)
        assert found.series[key] == [[0, pytest.approx(gaps[0])], [1, pytest.approx(gaps[1])]]


def test_copies_have_not_drifted() -> None:
    found = BatchNormDrift()(scene(model("stax", noise=0.0)))
    assert set(found.figures.values()) == {0.0}


@pytest.mark.parametrize("given", [None, model()], ids=["no model", "no sets"])
def test_without_sets_there_is_nothing_to_compare(given: Embedder | None) -> None:
    with pytest.raises(DataError, match="mdprop"):
        BatchNormDrift()(scene(given))
