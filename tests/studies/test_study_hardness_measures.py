"""Measures of the studies of hardness, against plain loops."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast import mining
from holdfast.data import SAMPLERS, ImageTable, Sampler, load
from holdfast.data.store import ImageStore
from holdfast.errors import DataError
from holdfast.evaluation import embed
from holdfast.mining.triplet import Variant
from holdfast.models import Embedder
from holdfast.seeds import generator
from holdfast.training.recipe import load_recipe
from holdfast_studies.measures import models
from holdfast_studies.measures.models import MinedHardness, NominalPasses
from holdfast_studies.probes import Scene

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def scene() -> Scene:
    whole = load({"name": "glyphs"})
    labels = np.unique(whole.split("test").labels)[:30]
    table: ImageTable = whole.subset(np.isin(whole.labels, labels) & (whole.splits == "test"))
    torch.manual_seed(0)
    return Scene(seed=3, device=CPU, model=Embedder("conv-tiny", dim=16).eval(), table=table)


@pytest.mark.parametrize(
    ("miner", "variant"),
    [("random", "published"), ("softhard", "published"), ("softhard", "default"), ("hardest", "published")],
)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_mined_hardness_is_the_mean_over_batches(scene: Scene, miner: str, variant: Variant, sampler: Sampler) -> None:
    found = MinedHardness(miner=miner, variant=variant, pairs=8, batches=40, sampler=sampler)(scene).figures
    assert scene.model is not None
    assert scene.table is not None
    z = embed(scene.model, ImageStore(scene.table, scene.model.view, CPU)).double().numpy()
    labels = torch.tensor(scene.table.labels)
    batches = SAMPLERS[sampler](labels, 8, 2, scene.seed)
    drawn = generator(scene.seed, "mining")
    build = mining.build(miner, anchors="first", variant=variant)
    means, variances = [], []
    for epoch in range(3):
        batches.set_epoch(epoch)
        for rows in batches:
            if len(means) == 40:
                break
            triplets = build(torch.from_numpy(z[rows]).float(), labels[rows], drawn, rows)
            assert isinstance(triplets, mining.Triplets)
            x = z[rows]
            hardness = [
                np.linalg.norm(x[a] - x[p]) - np.linalg.norm(x[a] - x[n])
                for a, p, n in zip(*(part.tolist() for part in triplets), strict=True)
            ]
            assert len(hardness) == 8 or (variant, sampler) == ("default", "pairs")  # an image may be its own partner
            means.append(np.mean(hardness))
            variances.append(np.var(hardness))
    assert len(means) == 40
    assert found["hardness"] == pytest.approx(np.mean(means), abs=1e-5)
    assert found["variance"] == pytest.approx(np.mean(variances), abs=1e-5)
    assert found["variance of means"] == pytest.approx(np.var(means), abs=1e-6)


def test_mined_hardness_depends_on_the_seed_alone(scene: Scene) -> None:
    probe = MinedHardness(miner="random", pairs=8, batches=5)
    assert probe(scene) == probe(scene)
    other = Scene(seed=4, device=CPU, model=scene.model, table=scene.table)
    assert probe(scene) != probe(other)


def test_images_are_embedded_once_for_all_miners(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(model: Embedder, store: ImageStore) -> Tensor:
        seen.append(len(store))
        return embed(model, store)

    monkeypatch.setattr(models, "embed", counted)
    assert scene.model is not None
    assert scene.table is not None
    torch.manual_seed(1)
    other = dataclasses.replace(scene, model=Embedder("conv-tiny", dim=16).eval())
    for one in (other, dataclasses.replace(other, seed=5)):
        for miner in ("random", "hardest"):
            MinedHardness(miner=miner, pairs=8, batches=2)(one)
    assert seen == [len(scene.table)]
    MinedHardness(miner="random", pairs=8, batches=2)(scene)
    fewer = dataclasses.replace(scene, table=scene.table.subset(np.arange(40)))
    MinedHardness(miner="random", pairs=2, batches=2)(fewer)
    assert seen == [len(scene.table)] * 2 + [40], "other weights, other images"


def test_measures_refuse_what_they_cannot_look_at(scene: Scene) -> None:
    with pytest.raises(DataError, match="needs a model"):
        MinedHardness(miner="random")(Scene(seed=0, device=CPU))
    with pytest.raises(DataError, match="trained run"):
        NominalPasses()(scene)


@pytest.mark.parametrize(
    ("recipe", "passes"), [("triplet-pocket", 48), ("hm-lga-pocket", 48 * 5), ("free-hm-pocket", 24 * 4)]
)
def test_spent_counts_passes_over_an_image(recipe: str, passes: int) -> None:
    run = load_recipe(recipe).plain()
    assert NominalPasses()(Scene(seed=0, device=CPU, run=run)).figures == {"passes": passes}
