from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from pictures import Paint

from holdfast.data import ImageTable, build, from_folder
from holdfast.errors import DataError
from holdfast.view import View


def splits_of(table: ImageTable) -> dict[str, str]:
    return dict(zip(table.ids, table.splits.tolist(), strict=True))


def test_class_folders_are_split_by_class(paint: Paint, tmp_path: Path) -> None:
    for c in range(10):
        for i in range(3):
            paint(f"set/class{c}/{i}.png")
    table = from_folder(tmp_path / "set", validation=0)
    assert len(table) == 30
    assert table.class_names == [f"class{c}" for c in range(10)]
    train, test = table.split("train"), table.split("test")
    assert not set(train.labels) & set(test.labels)
    assert len(set(test.labels)) == 5
    assert splits_of(table) == splits_of(from_folder(tmp_path / "set", validation=0))
    assert splits_of(table) != splits_of(from_folder(tmp_path / "set", validation=0, test_seed=1))
    assert set(from_folder(tmp_path / "set", test=1.0).splits) == {"test"}
    assert len(set(from_folder(tmp_path / "set", test=0.0, validation=0.3).split("val").labels)) == 3


def test_split_folders(paint: Paint, tmp_path: Path) -> None:
    names = ["Train/a/1.JPG", "Train/b/1.jpeg", "valid/c/1.webp", "test/d/1.bmp", "query/e/1.gif", "gallery/e/1.tiff"]
    for name in names:
        paint(f"set/{name}")
    paint("set/extras/x/1.png")
    paint("set/test/loose.png")
    reader = build("folder", root=str(tmp_path / "set"))
    table = reader.table()
    wanted = dict(zip(names, ["train", "train", "val", "test", "query", "gallery"], strict=True))
    assert splits_of(table) == wanted
    assert table.class_names[table.labels[table.ids.index("query/e/1.gif")]] == "e"
    assert table.skipped_files.unplaced == ("extras/x/1.png", "test/loose.png")
    assert len(table.read(range(len(table)), View(8))) == 6


def test_a_class_may_be_called_train(paint: Paint, tmp_path: Path) -> None:
    for name in ("car", "bus", "train"):
        paint(f"set/{name}/1.png")
    assert sorted(from_folder(tmp_path / "set").class_names) == ["bus", "car", "train"]


def test_nested_classes_and_a_folder_around_everything(paint: Paint, tmp_path: Path) -> None:
    for name in ("cat/siam", "cat/tabby", "dog"):
        paint(f"set/wrap/{name}/1.png")
    assert from_folder(tmp_path / "set").class_names == ["cat/siam", "cat/tabby", "dog"]
    for split, name in (("train", "x"), ("train", "y"), ("test", "z")):
        paint(f"other/wrap/{split}/{name}/1.png")
    assert set(from_folder(tmp_path / "other").splits) == {"train", "test"}


def test_a_zip_file_equals_its_folder(paint: Paint, tmp_path: Path) -> None:
    for c in "abcd":
        paint(f"set/{c}/1.png")
    shutil.make_archive(str(tmp_path / "set"), "zip", tmp_path, "set")
    folder, archive = from_folder(tmp_path / "set"), from_folder(tmp_path / "set.zip")
    assert archive.class_names == folder.class_names
    assert (archive.splits == folder.splits).all()
    assert torch.equal(archive.read(range(4), View(24)).pixels, folder.read(range(4), View(24)).pixels)


def test_mistakes(paint: Paint, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist; expected a folder"):
        from_folder(tmp_path / "none")
    (tmp_path / "empty" / "a").mkdir(parents=True)
    with pytest.raises(DataError, match="no images"):
        from_folder(tmp_path / "empty")
    paint("flat/1.png")
    with pytest.raises(DataError, match="no images in class folders"):
        from_folder(tmp_path / "flat")
    paint("one/only/1.png")
    with pytest.raises(DataError, match=r"only one class \('only'\)"):
        from_folder(tmp_path / "one")
