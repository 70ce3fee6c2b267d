"""Studies E1-E5 and E7: their arms can be trained, their claims read what is measured and can come out either way."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from figures_of import asked, figures_of, made_up, mixed_readings
from torch import nn

from holdfast.data import load
from holdfast.errors import HoldfastError
from holdfast.models import as_embedder
from holdfast.training.recipe import load_recipe
from holdfast.view import View
from holdfast_studies import base
from holdfast_studies.claims import All, Claim, Ordered
from holdfast_studies.jobs import SCALES, Cell, Scale, Training
from holdfast_studies.measures.embedded import KEPT, Plane, SplitRetrieval
from holdfast_studies.probes import Scene
from holdfast_studies.running import Places, run_cell
from holdfast_studies.setting import settings
from holdfast_studies.store import Store

IDS = ("E1", "E2", "E3", "E4", "E5", "E7")
METRICS = {f"{level}{key}" for level in ("", "coarse/") for key in KEPT}
PROBED = {"retrieval": METRICS, "plane": {"spread", "points"}}
STUDIES = [(name, scale) for name in IDS for scale in SCALES]


def orders(claim: Claim) -> list[Ordered]:
    """The comparisons that a claim is made of."""
    if isinstance(claim, All):
        return [order for part in claim.parts for order in orders(part)]
    assert isinstance(claim, Ordered)
    return [claim]


@pytest.mark.parametrize(("name", "scale"), STUDIES)
def test_every_arm_can_be_trained(name: str, scale: Scale) -> None:
    arms = base.get(name).arms(scale)
    assert arms
    assert len({arm.name for arm in arms}) == len(arms)
    for arm in arms:
        assert isinstance(arm.job, Training)
        arm.job.resolved(0)


@pytest.mark.parametrize(("name", "scale"), STUDIES)
def test_what_is_named_is_measured(name: str, scale: Scale) -> None:
    study = base.get(name)
    known = {arm.name: figures_of(arm, PROBED) | METRICS for arm in study.arms(scale)}
    anywhere = set().union(*known.values())
    assert set(study.columns(scale).values()) <= anywhere
    for order in [order for claim in study.claims(scale) for order in orders(claim)]:
        assert all(order.figure in known[arm] for arm in order.arms)
    for drawing in study.plan(scale).drawings:
        arms, figures = asked(drawing)
        assert arms <= set(known)
        assert figures <= anywhere
    assert study.notes(scale)


@pytest.mark.parametrize(("name", "scale"), STUDIES)
def test_claims_come_out_either_way(name: str, scale: Scale) -> None:
    for claim in base.get(name).claims(scale):
        for up, status in ((True, "holds"), (False, "does not hold")):
            values: dict[str, dict[str, float]] = {}
            for order in orders(claim):
                rising = up != order.smaller
                ranked = reversed(order.arms) if rising else order.arms
                for rank, arm in enumerate(ranked):
                    values.setdefault(arm, {})[order.figure] = 10.0 + 10 * rank
            assert claim.verdict(made_up(values)).status == status


def test_the_length_told_is_the_length_trained() -> None:
    jobs = {arm.name.partition(" ")[0]: arm.job for arm in base.get("E2").arms("paper")}
    lengths = {data: job.resolved(0).epochs for data, job in jobs.items() if isinstance(job, Training)}
    assert lengths == {"CUB": 100, "CARS": 150}
    assert "the 150 epochs that its framework has on CARS, 100 of them on CUB" in base.get("E2").notes("paper")


PUBLISHED = {"triplet": "eps-triplet", "margin": "eps-margin", "MS": "eps-ms"}


@pytest.mark.parametrize("data", ["cub", "cars"])
def test_rows_of_table_2_are_the_shipped_recipes(data: str) -> None:
    arms = {arm.name: arm.job for arm in base.get("E2").arms("paper")}
    for name, shipped in PUBLISHED.items():
        for arm, recipe in ((name, f"{shipped}-baseline"), (f"{name} + EPS", shipped)):
            job = arms[f"{data.upper()} {arm}"]
            assert isinstance(job, Training)
            expected = load_recipe(
                recipe, {"name": data, "root": data}, [f"{k}={v}" for k, v in job.settings.items()], 0
            )
            assert job.resolved(0) == expected


def kinds(name: str, scale: Scale = "paper") -> dict[str, str]:
    """Arm → whose setting it runs in."""
    return {arm: found.kind for arm, found in settings(base.get(name).arms(scale)).items()}


def test_arms_say_whose_setting_they_run_in() -> None:
    assert set(kinds("E1").values()) == {"paper"}
    for name in ("E2", "E3"):
        for arm, kind in kinds(name).items():
            assert kind == ("paper" if "CARS" in arm else "shortened"), arm
    shortened = settings(base.get("E3").arms("paper"))["Omniglot margin + EPS"]
    assert shortened.how == ("100 of 150 epochs",)
    assert kinds("E4")["Omniglot 8 per language"] == kinds("E4")["Omniglot 16 per language"] == "shortened"
    assert kinds("E4")["Omniglot 2 per language"] == "ours", "several batches an update are not the paper's"
    assert set(kinds("E5").values()) == {"shortened"}
    assert kinds("E1", "pocket")["MNIST, 2 epochs, triplet + EPS"] == "paper"
    assert kinds("E1", "pocket")["Digits triplet"] == "ours"


@pytest.mark.parametrize(("name", "scale"), STUDIES)
def test_no_claim_mixes_readings(name: str, scale: Scale) -> None:
    study = base.get(name)
    arms, claims = study.arms(scale), study.claims(scale)
    results = made_up({arm.name: {} for arm in arms})
    assert mixed_readings(claims, arms, results) == []
    assert len({(claim.text, claim.reading) for claim in claims}) == len(claims)


def test_triplets_are_squared_and_multi_similarity_averages_over_mined_anchors() -> None:
    for name, scale in STUDIES:
        for arm in base.get(name).arms(scale):
            assert isinstance(arm.job, Training)
            loss = arm.job.resolved(0).plain()["loss"]
            loss = loss.get("loss", loss)
            assert loss.get("squared", True), arm.name
            assert loss.get("reduction") != "all" or loss["name"] == "triplet", arm.name


def test_digits_are_measured_on_images_that_were_held_out() -> None:
    readings = set()
    for arm in base.get("E1").arms("paper"):
        assert isinstance(arm.job, Training)
        recipe = arm.job.resolved(0)
        readings.add((recipe.epochs, recipe.batch.per_class))
        assert recipe.batch.per_class * recipe.accumulate == 80, "an update has as many images in all"
        miner = recipe.plain()["loss"]["miner"]
        assert miner.get("negative", miner)["name"] == "random"
        assert all(m.arguments == {"split": "test", "data": {"protocol": "seen"}} for m in arm.job.measures)
    assert readings == {(2, 80), (10, 80), (2, 20), (10, 20)}


def test_what_table_4_does_not_print_is_a_limit() -> None:
    limits = [claim.text for claim in base.get("E7").claims("paper") if claim.limit]
    assert len(limits) == 4
    assert not any("triplet" in text for text in limits)


def test_pocket_trainings_are_few_and_shared() -> None:
    trainings = {name: {arm.job.identity(0) for arm in base.get(name).arms("pocket")} for name in IDS}
    assert len(set().union(*trainings.values())) <= 30
    assert trainings["E7"] <= trainings["E3"]
    assert len(trainings["E4"] & trainings["E3"]) == 2
    assert len(trainings["E5"] & trainings["E3"]) == 2


@pytest.mark.parametrize(("name", "scale"), [(n, s) for n, s in STUDIES if n in ("E1", "E2", "E3")])
def test_easy_positives_are_the_only_difference(name: str, scale: Scale) -> None:
    arms = {arm.name: arm.job for arm in base.get(name).arms(scale)}
    usual = [arm for arm in arms if f"{arm} + EPS" in arms]
    others = {arm for arm in arms if not arm.endswith(" + EPS")} - set(usual)
    assert {arm.partition(" ")[2] for arm in others} <= {"triplet, softhard"}
    for arm in usual:
        without, easy = arms[arm].resolved(0).plain(), arms[f"{arm} + EPS"].resolved(0).plain()
        assert easy["loss"]["miner"]["name"] == "easy-positive"
        assert easy["loss"]["miner"]["negative"]["name"] == without["loss"]["miner"]["name"]
        del without["loss"]["miner"], easy["loss"]["miner"]
        assert without == easy


@pytest.mark.parametrize("scale", SCALES)
def test_updates_of_one_size_in_e4(scale: Scale) -> None:
    sizes = set()
    for arm in base.get("E4").arms(scale):
        recipe = arm.job.resolved(0)
        assert recipe.batch.classes <= 30
        sizes.add(recipe.batch.classes * recipe.batch.per_class * recipe.accumulate)
    assert sizes == {112 if scale == "pocket" else 160}


class Pooled(nn.Module):
    """The brightness of sixteen fields."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(nn.functional.adaptive_avg_pool2d(images, 4).mean(1).flatten(1), dim=1)


def test_retrieval_of_a_split_by_both_label_sets() -> None:
    table = load({"name": "digits", "size": 16})
    scene = Scene(seed=0, device=torch.device("cpu"), model=as_embedder(Pooled(), 16), table=table)
    found = SplitRetrieval(split="train", limit=200)(scene).figures
    assert found == SplitRetrieval(split="train", limit=200)(scene).figures
    assert set(found) == METRICS

    whole = SplitRetrieval(split="train")(scene).figures
    seen = table.split("train")
    pixels = np.stack(seen.read(range(len(seen)), View(16)).arrays())
    vectors = Pooled()(torch.tensor(pixels).movedim(-1, 1).double() / 255)
    distance = torch.cdist(vectors, vectors).fill_diagonal_(torch.inf)
    nearest = distance.argmin(1)
    for level, key in (("fine", "R@1"), ("coarse", "coarse/R@1")):
        labels = torch.tensor(seen.labels_for(level))  # type: ignore[arg-type]
        assert whole[key] == pytest.approx(100 * (labels[nearest] == labels).double().mean().item(), abs=0.2)
    assert found["R@1"] != whole["R@1"]


def write_digits(folder: Path) -> None:
    """MNIST's four files with a few noisy images of each digit."""
    rng = np.random.default_rng(0)
    digits = np.arange(10).repeat(12)
    for part in ("train", "t10k"):
        pixels = rng.integers(0, 60, (len(digits), 28, 28)) + 18 * digits[:, None, None]
        for name, array in (("images-idx3", pixels), ("labels-idx1", digits)):
            header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
            (folder / f"{part}-{name}-ubyte").write_bytes(header + array.astype(np.uint8).tobytes())


def test_an_arm_of_e1_runs_from_files_to_figures(tmp_path: Path) -> None:
    write_digits(tmp_path)
    arm = base.get("E1").arms("pocket")[1]
    assert isinstance(arm.job, Training)
    job = dataclasses.replace(arm.job, settings={**arm.job.settings, "batch.per_class": 6})
    cell = Cell(arm=arm.name, job=job, seed=0)
    store = Store(tmp_path / "out")
    run_cell(cell, store, Places(data={"mnist": str(tmp_path)}, device="cpu"))
    record = store.read(cell)
    assert record is not None
    taken = list(record["measures"].values())
    assert [len(found["figures"]) > 0 for found in taken] == [True, True]
    points = next(found["series"]["points"] for found in taken if "points" in found.get("series", {}))
    assert {label for _, _, label in points} == set(range(6))
    assert len(points) == 6 * 12


def test_a_measure_can_look_at_another_form_of_the_dataset() -> None:
    data = {"name": "glyphs", "characters": 12, "per_class": 4}
    scene = Scene(
        seed=0,
        device=torch.device("cpu"),
        model=as_embedder(Pooled(), 32),
        table=load(data),
        run={"data": data},
    )
    assert len(scene.images("train", {})) == len(load(data).split("train"))
    more = {**data, "per_class": 7}
    assert len(scene.images("train", {"per_class": 7})) == len(load(more).split("train"))
    other = SplitRetrieval(split="train", data={"per_class": 7}, factor=2)(scene).figures
    plain = SplitRetrieval(split="train")(dataclasses.replace(scene, table=load(more))).figures
    assert other["R@1"] == plain["R@1"]
    assert other["NMI+"] is not None
    assert plain["NMI+"] is None, "ten clusters per class are more than seven images per class"


def test_retrieval_needs_a_model() -> None:
    with pytest.raises(HoldfastError, match="needs a model"):
        SplitRetrieval()(Scene(seed=0, device=torch.device("cpu")))


class Corners(nn.Module):
    """Brightness of the upper left and the lower right quarter, not of unit length."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.adaptive_avg_pool2d(images, 2).mean(1).flatten(1)[:, [0, 3]]


def test_points_in_the_plane() -> None:
    table = load({"name": "digits", "size": 16})
    scene = Scene(seed=0, device=torch.device("cpu"), model=as_embedder(Corners(), 16), table=table)
    found = Plane(limit=50)(scene)
    points = torch.tensor(found.series["points"], dtype=torch.float64)
    assert points.shape == (50, 3)
    assert points[:, :2].mean(0).abs().max() < 1e-3
    assert (points[:, :2] ** 2).sum(1).mean() == pytest.approx(1, abs=1e-3)
    assert set(points[:, 2].int().tolist()) <= set(table.split("train").labels.tolist())
    with pytest.raises(HoldfastError, match="two dimensions"):
        Plane()(Scene(seed=0, device=torch.device("cpu"), model=as_embedder(Pooled(), 16), table=table))
