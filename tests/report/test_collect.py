from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from collected_runs import HOSTILE, csv_run, make_run, read, split_images, write_images
from PIL import Image
from torch import nn

from holdfast.errors import HoldfastError
from holdfast.models import Embedder
from holdfast.models.bank import SetStart
from holdfast.report import collect, is_current
from holdfast.view import View

ATTACKED = ("triplet", "radius", "outcomes")


def named_files(value: Any) -> set[str]:
    """Every picture a document names."""
    if isinstance(value, dict):
        own = {value["file"]} if "file" in value else set()
        return own.union(*(named_files(v) for key, v in value.items() if key != "made"))
    return set().union(*(named_files(v) for v in value)) if isinstance(value, list) else set()


def test_every_named_picture_is_there_and_no_other(shown: Path) -> None:
    document = read(shown / "artifacts" / "exhibits.json")
    there = {f"pictures/{file.name}" for file in (shown / "artifacts" / "pictures").iterdir()}
    assert named_files(document) == there
    assert sum(file.stat().st_size for file in (shown / "artifacts" / "pictures").iterdir()) < 2e6
    assert document["missing"].keys() == {"drift"}
    assert document["made"]["images"] is True
    assert (document["made"]["model"], document["made"]["split"], document["made"]["seed"]) == ("run", "test", 5)


def test_the_data_card_counts(shown: Path) -> None:
    card = read(shown / "artifacts" / "exhibits.json")["data_card"]
    assert (card["images"], card["classes"]) == (65, 12)
    assert card["per_class"] == {"least": 2, "median": 6.0, "most": 6}
    assert card["splits"] == {"train": {"images": 5, "classes": 2}, "test": {"images": 60, "classes": 10}}
    assert [len(sample["pictures"]) for sample in card["samples"]] == [4] * 10


def test_hostile_names_survive_as_data(shown: Path) -> None:
    document = read(shown / "artifacts" / "exhibits.json")
    assert set(HOSTILE) <= {sample["label"] for sample in document["data_card"]["samples"]}
    assert set(HOSTILE) <= set(document["map"]["names"])


def test_the_same_seed_gives_the_same_bytes(shown: Path, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in (shown / "artifacts").rglob("*.*")}
    again = shutil.copytree(shown, tmp_path / "run")
    collect(again)
    assert {file.name: file.read_bytes() for file in (again / "artifacts").rglob("*.*")} == before
    collect(again, seed=6)
    other = read(again / "artifacts" / "exhibits.json")
    assert [s["label"] for s in other["strips"]] != [
        s["label"] for s in read(shown / "artifacts/exhibits.json")["strips"]
    ]


def test_private_images_leave_no_picture(shown: Path, tmp_path: Path) -> None:
    run = shutil.copytree(shown, tmp_path / "run")
    document = read(collect(run, images=False, limit=10))
    assert not (run / "artifacts" / "pictures").exists()
    assert named_files(document) == set()
    assert document["strips"][0]["query"] is None
    assert document["strips"][0]["attacked"]["change"] is None
    assert document["map"]["sprite"] is None
    assert is_current(run, images=False)
    assert not is_current(run)


def test_exhibits_grow_old(shown: Path, tmp_path: Path) -> None:
    run = shutil.copytree(shown, tmp_path / "run")
    assert is_current(run)
    file = run / "artifacts" / "exhibits.json"
    later = file.stat().st_mtime + 10
    os.utime(run / "model" / "model.safetensors", (later, later))
    assert not is_current(run)
    os.utime(file, (later, later))
    assert is_current(run)
    (run / "audit.json").write_text("{}")
    os.utime(run / "audit.json", (later + 1, later + 1))
    assert not is_current(run)
    (run / "audit.json").unlink()
    next((run / "artifacts" / "pictures").glob("*.png")).unlink()
    assert not is_current(run)
    assert is_current(run, images=False)
    file.write_text(json.dumps({**read(file), "schema": 0}))
    assert not is_current(run, images=False)
    file.write_text("{")
    assert not is_current(run, images=False)


def test_exhibits_of_other_images_are_never_current(shown: Path, tmp_path: Path) -> None:
    run = shutil.copytree(shown, tmp_path / "run")
    other = write_images(tmp_path / "other", {"test": {"a": 2, "b": 2}})
    made = read(collect(run, data=f"csv:{other}", images=False))["made"]
    assert made["data"] == {"name": "csv", "file": str(other)}
    assert not is_current(run, images=False)
    collect(run, images=False)
    assert is_current(run, images=False)


def test_a_run_that_names_no_images_keeps_those_it_was_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {})
    collect(run, data=f"csv:{write_images(tmp_path / 'images', {'test': {'a': 2, 'b': 2}})}", images=False)
    assert is_current(run, images=False)


@pytest.mark.parametrize("images", [True, False])
@pytest.mark.parametrize("place", ["artifacts", "artifacts/pictures", "artifacts/exhibits.json"])
def test_nothing_is_written_or_removed_through_a_link(place: str, images: bool, tmp_path: Path) -> None:
    run = csv_run(tmp_path, {"test": {"a": 2, "b": 2}})
    outside = tmp_path / "outside"
    (outside / "pictures").mkdir(parents=True)
    for canary in ("exhibits.json", "canary", "pictures/canary"):
        (outside / canary).write_text("precious")
    (run / place).parent.mkdir(exist_ok=True)
    (run / place).symlink_to(outside / place.removeprefix("artifacts").strip("/"))
    before = {file: file.is_file() and file.read_bytes() for file in tmp_path.rglob("*")}
    with pytest.raises(HoldfastError, match="a link that leads out of"):
        collect(run, images=images)
    assert {file: file.is_file() and file.read_bytes() for file in tmp_path.rglob("*")} == before


def test_a_failure_leaves_the_old_exhibits(shown: Path, tmp_path: Path) -> None:
    run = shutil.copytree(shown, tmp_path / "run")
    before = {file: file.read_bytes() for file in (run / "artifacts").rglob("*.*")}
    with pytest.raises(HoldfastError, match="no file"):
        collect(run, data="csv:nowhere.csv")
    assert {file: file.read_bytes() for file in (run / "artifacts").rglob("*.*")} == before


def test_one_class_is_shown_without_a_search(tmp_path: Path) -> None:
    run = csv_run(tmp_path, {"train": {"other": 2}, "test": {"only": 3}})
    document = read(collect(run))
    assert document["data_card"]["splits"]["test"] == {"images": 3, "classes": 1}
    assert len(document["data_card"]["samples"]) == 1
    empty = {key for key, value in document.items() if value is None}
    searched = {"classes", "failures", "strips", "outcomes", "distances", "map", "confusions", "triplet", "radius"}
    assert empty == searched | {"damage", "drift"}
    assert empty == document["missing"].keys()
    assert "one class" in document["missing"]["strips"]


def test_images_without_a_partner_have_nothing_to_find(tmp_path: Path) -> None:
    document = read(collect(csv_run(tmp_path, {"test": {"a": 1, "b": 1, "c": 1}})))
    nothing = {"classes", "damage", "failures", "strips", "distances", "confusions", "triplet", "radius"}
    assert {key for key, value in document.items() if value is None} == nothing | {"drift"}
    assert all(re.search("class|positive", document["missing"][key]) for key in nothing)
    assert document["outcomes"] == {"fooled": 0, "held": 0, "wrong": 0}
    assert document["map"]["method"] == "PCA"


def test_two_images_of_two_classes(tmp_path: Path) -> None:
    document = read(collect(csv_run(tmp_path, {"test": {"a": 2, "b": 2}})))
    assert document["missing"].keys() == {"drift"}
    assert all(len(strip["matches"]) == 3 for strip in document["strips"])


def test_images_of_the_same_camera_are_not_shown_as_matches(tmp_path: Path) -> None:
    run = csv_run(tmp_path, {"test": dict.fromkeys("abcd", 4)}, group=True)
    document = read(collect(run, images=False))
    assert len(document["strips"]) == 8
    for strip in document["strips"]:
        found = [match["distance"] for match in strip["matches"]]
        assert found == sorted(set(found))
        assert sum(match["right"] for match in strip["matches"]) <= 2


class Blind(nn.Module):
    """Gives no gradients, as an ONNX graph."""

    differentiable = False

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.avg_pool2d(images.detach(), 8).flatten(1)


def test_a_model_without_gradients_is_shown_but_not_attacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = csv_run(tmp_path, {"test": dict.fromkeys("abcd", 4)})
    monkeypatch.setattr("holdfast.audit.preparation.load_model", lambda *_, **__: Embedder.wrap(Blind(), 32).eval())
    document = read(collect(run))
    assert all(document[key] is None and "gradients" in document["missing"][key] for key in ATTACKED)
    assert "gradients" in document["missing"]["attacked"]
    assert all(strip["attacked"] is None and len(strip["matches"]) == 6 for strip in document["strips"])
    assert document["distances"]["attacked_positive"] is None
    assert sum(document["distances"]["positive"]) == pytest.approx(1)


def test_a_broken_model_is_said_to_be_broken(tmp_path: Path) -> None:
    run = csv_run(tmp_path, {"test": {"a": 3, "b": 3}})
    model = Embedder.from_pretrained(str(run / "model"))
    with torch.no_grad():
        model.head.weight.fill_(3e38)  # finite, unlike what it makes of images
    model.save_pretrained(run / "model")
    document = read(collect(run))
    assert "NaN" in document["missing"]["map"]
    assert document["data_card"]["images"] == 6


def test_drift_of_auxiliary_sets(tmp_path: Path) -> None:
    run = csv_run(tmp_path, {"test": {"a": 3, "b": 3}})
    model = Embedder.from_pretrained(str(run / "model"))
    model.bank.add(model.backbone, SetStart("hard"))
    with torch.no_grad():
        for name, tensor in model.bank.tensors("hard").items():
            if name.endswith("running_mean"):
                tensor += 0.25
    model.bank.save(run / "model")
    found = read(collect(run, images=False))["drift"]
    assert found.keys() == {"hard"}
    for gaps in found["hard"].values():
        assert gaps == pytest.approx({"weight": 0, "bias": 0, "running_mean": 0.25, "running_var": 0})


def audit_folder(folder: Path, model: str, data: Any) -> Path:
    folder.mkdir()
    budget = {"eps_pixel": 2 / 255, "steps": 2}
    document = {"model": model, "data": data, "split": "test", "seed": 3, "budget": budget, "skipped": []}
    (folder / "audit.json").write_text(json.dumps(document))
    return folder


def test_an_audit_names_its_model_and_images(shown: Path, tmp_path: Path) -> None:
    file = str(write_images(tmp_path / "images", {"test": {"a": 3, "b": 3}}))
    folder = audit_folder(tmp_path / "audit", str(shown), {"name": "csv", "file": file})
    made = read(collect(folder))["made"]
    assert (made["model"], made["seed"], made["data"]["file"]) == (str(shown), 3, file)
    assert made["attack"] == {"goal": "misrank", "eps_pixel": 2 / 255, "steps": 2}
    assert is_current(folder)


def test_a_model_that_does_not_know_its_size_is_looked_at_in_the_size_of_its_audit(tmp_path: Path) -> None:
    code = "import torch\ndef model(): return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 4))\n"
    (tmp_path / "mine.py").write_text(code)
    file = write_images(tmp_path / "images", {"test": {"a": 3, "b": 3}})
    folder = audit_folder(tmp_path / "audit", f"{tmp_path / 'mine.py'}:model", {"name": "csv", "file": str(file)})
    document = read(folder / "audit.json")
    (folder / "audit.json").write_text(json.dumps(document | {"size": 8}))
    assert read(collect(folder, trust_code=True))["strips"]


def test_a_file_never_runs_code_on_its_own(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef model(): ...\n")
    file = write_images(tmp_path / "images", {"test": {"a": 2, "b": 2}})
    folder = audit_folder(tmp_path / "audit", f"{tmp_path / 'evil.py'}:model", {"name": "csv", "file": str(file)})
    with pytest.raises(HoldfastError, match="trust_code"):
        collect(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({}, "neither a run"),
        ({"audit.json": "{"}, "damaged"),
        ({"audit.json": '{"data": {"name": "glyphs"}}'}, "name its model"),
        ({"audit.json": '{"model": "m", "data": "mine"}'}, "give them with data"),
        ({"recipe.yaml": "seed: 1"}, "give them with data"),
    ],
)
def test_a_folder_that_tells_too_little_is_refused(content: dict[str, str], says: str, tmp_path: Path) -> None:
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(HoldfastError, match=says):
        collect(tmp_path)


def test_limit_must_be_positive(shown: Path) -> None:
    with pytest.raises(HoldfastError, match="limit"):
        collect(shown, limit=0)


def test_large_pictures_are_reduced(tmp_path: Path) -> None:
    from holdfast.data import ImageStore
    from holdfast.report.images import ImageFiles

    run = make_run(
        tmp_path / "run", {"name": "csv", "file": str(write_images(tmp_path / "i", {"test": {"a": 1, "b": 1}}))}
    )
    store = ImageStore(split_images(run), View(300), "cpu")
    pictures = ImageFiles(tmp_path)
    (tmp_path / "pictures").symlink_to(tmp_path)
    first = pictures.of(store, 0, "one")
    assert first is not None
    assert first == {"file": "pictures/0001.jpg", "width": 224, "height": 224, "alt": "one"}
    assert pictures.of(store, 0, "again") == {**first, "alt": "again"}
    exact = pictures.exact(torch.rand(3, 300, 300), "exact")
    assert exact == {"file": "pictures/0002.png", "width": 256, "height": 256, "alt": "exact"}
    for entry in (first, exact):
        assert Image.open(tmp_path / entry["file"]).size == (entry["width"], entry["height"])
    original = np.array(Image.fromarray(store.table.source.image(0, View(300))).resize((224, 224)), float)
    assert np.abs(np.array(Image.open(tmp_path / first["file"]), float) - original).mean() < 25


def test_photographs_are_stored_sharper_than_a_small_model_sees_them(tmp_path: Path) -> None:
    from holdfast.data import ArraySource, ImageStore, ImageTable
    from holdfast.report.images import ImageFiles

    down, across = np.meshgrid(np.linspace(0, 255, 300), np.linspace(0, 255, 400), indexing="ij")
    pixels = np.stack([np.stack([down, across, 0 * down], -1)] * 2).astype(np.uint8)
    table = ImageTable.of(ArraySource(pixels), classes=["a", "b"], splits=["test"] * 2, ids=["0", "1"], name="photos")
    (tmp_path / "pictures").symlink_to(tmp_path)
    for size, canvas, side in ((32, 36, 224), (224, 256, 224), (200, 300, 200)):  # the last has no more pixels to give
        store = ImageStore(table, View(size, canvas), "cpu")
        entry = ImageFiles(tmp_path).of(store, 1, "photo")
        assert entry is not None
        assert (entry["width"], entry["height"]) == (side, side)
        small = Image.open(tmp_path / entry["file"]).resize((size, size), Image.Resampling.BOX)
        seen = 255 * store.inputs(torch.tensor([1]))[0].permute(1, 2, 0).numpy()
        assert np.abs(np.array(small, float) - seen).mean() < 4  # the same part of the photograph
