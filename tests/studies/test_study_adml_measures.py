"""Probes of the ADML studies against plain loops."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
import torch

from holdfast.audit import run
from holdfast.data import ImageStore, ImageTable, load
from holdfast.errors import DataError, RecipeError
from holdfast.evaluation import embed
from holdfast.models import Embedder, ModelConfig
from holdfast_studies.measures.embedded import PairDistances
from holdfast_studies.measures.models import AttackStrength
from holdfast_studies.probes import Scene

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model() -> Embedder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ModelConfig(backbone="conv-small", dim=16).build().eval()


@pytest.fixture(scope="module")
def table() -> ImageTable:
    return load({"name": "glyphs", "characters": 20, "per_class": 4})


def test_pair_distances_against_a_loop(model: Embedder, table: ImageTable) -> None:
    bins = 8
    found = PairDistances(bins=bins)(Scene(seed=0, device=CPU, model=model, table=table))
    vectors = embed(model, ImageStore(table.split("test"), model.view, CPU)).double().tolist()
    apart = [math.dist(a, b) for a, b in itertools.combinations(vectors, 2)]
    mean = sum(apart) / len(apart)
    assert found.figures["mean"] == pytest.approx(mean)
    assert found.figures["deviation"] == pytest.approx(math.sqrt(sum((d - mean) ** 2 for d in apart) / len(apart)))
    counts = [sum(int(d * bins / 2) == place for d in apart) for place in range(bins)]
    density = found.series["density"]
    assert [x for x, _ in density] == pytest.approx([(place + 0.5) * 2 / bins for place in range(bins)])
    assert [y for _, y in density] == pytest.approx([count / len(apart) * bins / 2 for count in counts])


def test_strength_is_what_the_audit_finds(model: Embedder, table: ImageTable) -> None:
    scene = Scene(seed=3, device=CPU, model=model, table=table)
    found = AttackStrength(goal="alignment", limit=20)(scene).figures
    audited = run(model, table, protocol="adml", limit=20, seed=3, device="cpu").document["metrics"]
    assert found["R@1"] == pytest.approx(audited["alignment/R@1"])
    assert found["drop"] == pytest.approx(audited["R@1"] - audited["alignment/R@1"])
    assert found["shift"] is not None
    assert found["shift"] > 0


def test_units_of_the_radius(model: Embedder, table: ImageTable) -> None:
    """The small network divides by 0.5, so that a normalised radius is half of itself in pixels."""
    scene = Scene(seed=0, device=CPU, model=model, table=table)
    attack = AttackStrength(goal="uniformity", eps=0.02, units="normalized", limit=8)
    halved = dataclasses.replace(attack, eps=0.01, units="pixel")
    assert attack(scene).figures["shift"] == pytest.approx(halved(scene).figures["shift"])
    nothing = dataclasses.replace(attack, eps=0.0)(scene).figures
    assert nothing["drop"] == 0
    assert nothing["shift"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("probe", [PairDistances(), AttackStrength(goal="alignment")])
def test_a_model_is_needed(probe: PairDistances | AttackStrength) -> None:
    with pytest.raises(DataError, match="needs a model"):
        probe(Scene(seed=0, device=CPU))


def test_bins_are_counted_from_one() -> None:
    with pytest.raises(RecipeError, match="bins must be 1 or more"):
        PairDistances(bins=0)
