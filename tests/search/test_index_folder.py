from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from holdfast.data import ImageTable
from holdfast.data.sources import ArraySource
from holdfast.errors import ModelError, SearchError
from holdfast.models import Embedder
from holdfast.search import (
    IndexedImages,
    MemoryIndex,
    add_images,
    create_index,
    filling,
    model_of,
    read_index,
    read_manifest,
    write_index,
)
from holdfast.search.memory import KINDS
from holdfast.view import View
from index_cases import images_of, made, picture_table, pictures, small_model


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def by_id(index: MemoryIndex) -> dict[str, Any]:
    return {name: (index.vectors[row].tobytes(), *index.images[row]) for row, name in enumerate(index.images.ids)}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_reloaded_index_is_the_one_written(tmp_path: Path, kind: str) -> None:
    index = made(tmp_path / "index", 40, kind=kind, calibrate=20)
    again = read_index(tmp_path / "index")
    assert by_id(again) == by_id(index)
    np.testing.assert_array_equal(again.clean, index.clean)
    found, expected = again.search(index.vectors, 5), index.search(index.vectors, 5)
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.distances, expected.distances)
    assert again.model.weights == index.model.weights


def test_its_vectors_are_the_models(tmp_path: Path) -> None:
    pixels = pictures(12)
    index = made(tmp_path / "index", 12, calibrate=0)
    import torch

    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        np.testing.assert_allclose(index.vectors, small_model()(images).numpy(), atol=1e-5)


def test_adding_gives_what_building_from_all_gives(tmp_path: Path) -> None:
    pixels = pictures(40)
    made(tmp_path / "grown", 25)
    grown, added = add_images(tmp_path / "grown", picture_table(pixels[25:], first=25))
    assert (added.added, added.replaced, added.unchanged) == (15, 0, 0)
    whole = made(tmp_path / "whole", 40)
    assert list(grown.images.ids) == list(whole.images.ids)
    np.testing.assert_allclose(grown.vectors, whole.vectors, atol=1e-6)
    np.testing.assert_array_equal(grown.search(whole.vectors, 6).rows, whole.search(whole.vectors, 6).rows)
    np.testing.assert_array_equal(grown.images.fingerprints, whole.images.fingerprints)
    assert by_id(read_index(tmp_path / "grown")) == by_id(grown)
    assert len(grown.clean) == 40


def test_what_is_there_is_skipped_unless_it_changed(tmp_path: Path) -> None:
    pixels = pictures(20)
    folder = tmp_path / "index"
    first = made(folder, 20)
    before = content(folder)
    _, again = add_images(folder, picture_table(pixels))
    assert (again.added, again.replaced, again.unchanged) == (0, 0, 20)
    assert content(folder) == before, "nothing to add, nothing written"
    other = pixels.copy()
    other[3] = 255 - other[3]
    index, changed = add_images(folder, picture_table(other))
    assert (changed.added, changed.replaced, changed.unchanged) == (0, 1, 19)
    old, new = by_id(first), by_id(index)
    assert {name for name in old if old[name] != new[name]} == {"picture-3"}
    assert sorted(new) == sorted(old)


def test_old_files_are_gone_after_adding(tmp_path: Path) -> None:
    made(tmp_path / "index", 20)
    add_images(tmp_path / "index", picture_table(pictures(3, seed=5), first=100))
    manifest = read_manifest(tmp_path / "index")
    assert {p.name for p in (tmp_path / "index").iterdir()} == {
        "manifest.json",
        "model",
        manifest["arrays"],
        manifest["names"],
    }


@pytest.mark.parametrize("dies_at", ["arrays", "names", "manifest"])
def test_an_interrupted_add_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: str) -> None:
    folder = tmp_path / "index"
    index = made(folder, 20)
    from holdfast import files

    replace = Path.replace

    def dying(self: Path, target: Any) -> Path:
        if Path(target).name.startswith(dies_at):
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(files.Path, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        add_images(folder, picture_table(pictures(9, seed=5), first=100))
    monkeypatch.undo()
    assert by_id(read_index(folder)) == by_id(index)
    grown, added = add_images(folder, picture_table(pictures(9, seed=5), first=100))
    assert added.added == 9
    assert by_id(read_index(folder)) == by_id(grown)


def test_of_two_who_add_at_once_the_second_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    made(folder, 20)
    manifest = read_manifest(folder)
    mine = read_index(folder)
    theirs, _ = add_images(folder, picture_table(pictures(2, seed=5), first=100))
    with pytest.raises(SearchError, match="meanwhile"):
        write_index(folder, mine.extended(*_one_more(mine)), replaces=manifest)
    assert by_id(read_index(folder)) == by_id(theirs)


def test_an_index_is_read_while_another_process_adds_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "index"
    made(folder, 20)
    manifest = read_manifest(folder)
    grown, _ = add_images(folder, picture_table(pictures(2, seed=5), first=100))
    assert by_id(read_index(folder, manifest)) == by_id(grown), "the files of that manifest are gone"
    real = Path.rglob
    monkeypatch.setattr(Path, "rglob", lambda self, pattern: [*real(self, pattern), self / ".manifest.json.tmp"])
    assert by_id(read_index(folder)) == by_id(grown), "a file was moved into its place while the folder was looked at"
    monkeypatch.undo()
    (folder / read_manifest(folder)["names"]).unlink()
    with pytest.raises(SearchError, match=r"names-.*missing"):
        read_index(folder)


@pytest.mark.parametrize(
    ("reference", "shown"),
    [
        ("/home/me/nets.py:one", "nets.py:one"),
        ("C:\\me\\nets.py:one", "nets.py:one"),
        ("me@home/nets.py:one", "nets.py:one"),
        ("onnx:/home/me/net.onnx", "onnx:net.onnx"),
        ("timm:hf_hub:owner/name@/home/me/w@2.pth", "timm:hf_hub:owner/name@w@2.pth"),
        ("timm:hf_hub:owner/name", "timm:hf_hub:owner/name"),
        ("holdfast/pocket-robust", "holdfast/pocket-robust"),
        ("hm", "hm"),
        ("", ""),
    ],
)
def test_what_the_model_is_called_names_no_folder(reference: str, shown: str, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    made(folder, 12, reference=reference, calibrate=0)
    assert read_manifest(folder)["model"]["reference"] == shown
    manifest = read_manifest(folder)
    manifest["model"]["reference"] = reference  # as an index of before has it
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert read_index(folder).model.reference == shown


def _one_more(index: MemoryIndex) -> tuple[Any, IndexedImages]:
    return -index.vectors[:1], images_of(1, first=1000)


def test_the_model_comes_along_and_another_is_refused(tmp_path: Path) -> None:
    index = made(tmp_path / "index", 12)
    model_of(tmp_path / "index", index, None, "cpu")
    model_of(tmp_path / "index", index, small_model(), "cpu")
    with pytest.raises(ModelError, match="not the model"):
        model_of(tmp_path / "index", index, small_model(seed=1), "cpu")


def looking(**settings: Any) -> Embedder:
    """The same weights behind another view."""
    torch.manual_seed(0)
    return Embedder("conv-tiny", dim=8, **settings).eval()


def test_a_model_that_sees_images_otherwise_is_refused(tmp_path: Path) -> None:
    index = made(tmp_path / "index", 12)
    model_of(tmp_path / "index", index, looking(fit="crop"), "cpu")
    for settings, named in (
        ({"fit": "squash"}, "32 px, squashed, bilinear"),
        ({"canvas": 40}, "40 → 32 px, shape kept"),
        ({"interpolation": "bicubic"}, "centre crop, bicubic"),
    ):
        with pytest.raises(ModelError) as caught:
            model_of(tmp_path / "index", index, looking(**settings), "cpu")
        assert named in str(caught.value)
        assert str(index.model.view) in str(caught.value)


def test_an_older_index_was_squashed(tmp_path: Path) -> None:
    made(tmp_path / "index", 12)
    manifest = json.loads((tmp_path / "index" / "manifest.json").read_text())
    assert {manifest["model"].pop(key) for key in ("fit", "interpolation")} == {"crop", "bilinear"}
    (tmp_path / "index" / "manifest.json").write_text(json.dumps(manifest))
    index = read_index(tmp_path / "index")
    assert index.model.view == View(32, 32, "squash", "bilinear")
    model_of(tmp_path / "index", index, looking(fit="squash"), "cpu")
    with pytest.raises(ModelError, match="sees images otherwise"):
        model_of(tmp_path / "index", index, looking(), "cpu")


def test_a_model_that_cannot_be_packaged_must_be_given(tmp_path: Path) -> None:
    net = Embedder.wrap(nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten()), 32)
    index, _ = create_index(tmp_path / "index", net, picture_table(pictures(12)), reference="mine")
    with pytest.raises(SearchError, match="mine, is not inside; give it with --model"):
        model_of(tmp_path / "index", index, None, "cpu")
    model_of(tmp_path / "index", index, net, "cpu")


def test_an_index_is_not_built_over_another(tmp_path: Path) -> None:
    made(tmp_path / "index", 12)
    before = content(tmp_path / "index")
    with pytest.raises(SearchError, match="--add"):
        made(tmp_path / "index", 12)
    assert content(tmp_path / "index") == before


def test_two_images_of_one_name_are_refused(tmp_path: Path) -> None:
    table = picture_table(pictures(4))
    table = table.subset([0, 1, 2, 0])
    with pytest.raises(SearchError, match="2 images are called 'picture-0'"):
        create_index(tmp_path / "index", small_model(), table)
    assert not (tmp_path / "index").exists()


def test_the_same_seed_writes_the_same_index(tmp_path: Path) -> None:
    made(tmp_path / "one", 20)
    made(tmp_path / "two", 20)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_undecodable_names_survive(tmp_path: Path) -> None:
    import dataclasses

    name = "caf\udce9.png"
    table = dataclasses.replace(picture_table(pictures(3)), ids=[name, "b", "c"])
    create_index(tmp_path / "index", small_model(), table)
    assert read_index(tmp_path / "index").images.ids[0] == name
    assert json.loads((tmp_path / "index" / "manifest.json").read_text())["images"] == 3


class CountedSource(ArraySource):
    """Images in memory that count how often each is decoded."""

    def __init__(self, array: NDArray[np.uint8]) -> None:
        super().__init__(array)
        self.decoded = Counter[int]()

    def image(self, index: int, view: View | None = None) -> NDArray[np.uint8]:
        self.decoded[index] += 1
        return super().image(index, view)

    def images(self, indices: Sequence[int] | NDArray[np.int64], view: View) -> list[NDArray[np.uint8]]:
        self.decoded.update(map(int, indices))
        return super().images(indices, view)


def test_an_image_that_is_new_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "used_once", lambda: "none")  # as sets are that no memory holds
    pixels = pictures(30)

    def counted(first: int, end: int, changed: int | None = None) -> tuple[ImageTable, Counter[int]]:
        shown = pixels.copy()
        if changed is not None:
            shown[changed] = 255 - shown[changed]
        source = CountedSource(shown[first:end])
        return dataclasses.replace(picture_table(shown[first:end], first), source=source), source.decoded

    table, decoded = counted(0, 20)
    create_index(tmp_path / "index", small_model(), table, calibrate=0, batch=7)
    assert decoded == dict.fromkeys(range(20), 1)
    table, decoded = counted(10, 30, changed=12)
    grown, added = add_images(tmp_path / "index", table, batch=7)
    assert (added.added, added.replaced, added.unchanged) == (10, 1, 9)
    assert decoded == {row: 2 if row == 2 else 1 for row in range(20)}, (
        "one that has changed is seen to have, and embedded"
    )
    whole = picture_table(np.concatenate([pixels[:12], 255 - pixels[12:13], pixels[13:]]))
    fresh, _ = create_index(tmp_path / "whole", small_model(), whole, calibrate=0)
    assert isinstance(grown, MemoryIndex)
    assert isinstance(fresh, MemoryIndex)
    np.testing.assert_allclose(grown.vectors_of(whole.ids), fresh.vectors, atol=1e-6)
    assert {name: grown.known([name]) for name in whole.ids} == {name: fresh.known([name]) for name in whole.ids}
