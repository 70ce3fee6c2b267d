"""Lists of published datasets that are cut, lead out of the dataset or are no lists at all."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from pictures import Paint
from scipy.io import savemat

from holdfast.data import load
from holdfast.data.readers import digits
from holdfast.errors import DataError

SOP = "image_id class_id super_class_id path\n"
INSHOP = "image_name item_id evaluation_status\n"


@pytest.fixture
def root(paint: Paint, tmp_path: Path) -> Path:
    """A folder with a few images, and one beside it that no list may reach."""
    for name in ("001.A/1.jpg", "101.B/1.jpg"):
        paint(f"set/images/{name}")
        paint(f"set/img/M/{name}")
        paint(f"set/lamp_final/{name}")
    paint("outside.jpg")
    return tmp_path / "set"


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("row", ["../outside.jpg", "001.A/../../../outside.jpg", "/etc/outside.jpg"])
def test_no_list_leads_out_of_its_dataset(root: Path, row: str, skip_bad: bool) -> None:
    (root / "images.txt").write_text(f"1 001.A/1.jpg\n2 {'../' if row.startswith('..') else ''}{row}\n")
    (root / "Ebay_train.txt").write_text(f"{SOP}1 1 1 {row}\n")
    (root / "Ebay_test.txt").write_text(SOP)
    (root / "list_eval_partition.txt").write_text(f"1\n{INSHOP}{row} id_1 train\n")
    cars = np.array([(row, 1)], dtype=[("relative_im_path", "O"), ("class", "O")])
    titles = np.array(["A"] * 196, dtype=object)
    savemat(root / "cars_annos.mat", {"annotations": cars[None], "class_names": titles[None]})
    for name in ("cub", "sop", "inshop", "cars"):
        if name == "cub" and row.startswith("/"):
            continue  # below images/, so it leads nowhere
        with pytest.raises(DataError, match=r"lies outside|are missing") as refused:
            load(f"{name}:{root}", skip_bad=skip_bad)
        assert not skip_bad or "lies outside" in str(refused.value)


@pytest.mark.parametrize(
    ("files", "name", "message"),
    [
        ({"images.txt": "1 001.A/1.jpg\n2\n"}, "cub", "number image"),
        ({"Ebay_train.txt": "1 1 1 lamp_final/001.A/1.jpg\n", "Ebay_test.txt": SOP}, "sop", "line of titles"),
        ({"Ebay_train.txt": "", "Ebay_test.txt": SOP}, "sop", "line of titles"),
        ({"Ebay_train.txt": SOP, "Ebay_test.txt": SOP}, "sop", "name no photographs"),
        ({"list_eval_partition.txt": f"2\n{INSHOP}img/M/001.A/1.jpg id_1 train\n"}, "inshop", "2 images, and lists 1"),
        ({"list_eval_partition.txt": f"1\n{INSHOP}img/M/001.A/1.jpg id_1 test\n"}, "inshop", "part 'test'"),
    ],
)
def test_rows_do_not_get_lost_quietly(root: Path, files: dict[str, str], name: str, message: str) -> None:
    for file, text in files.items():
        (root / file).write_text(text)
    with pytest.raises(DataError, match=message):
        load(f"{name}:{root}")


def test_images_that_a_cut_list_does_not_name_are_told(root: Path) -> None:
    (root / "images.txt").write_text("1 001.A/1.jpg\n")
    assert load(f"cub:{root}").skipped_files.unplaced == ("images/101.B/1.jpg",)


def test_a_list_that_is_a_pipe_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "images.txt")
    with pytest.raises(DataError, match="no plain file"):
        load(f"cub:{root}")


def test_cars_of_a_class_without_a_name(root: Path) -> None:
    for number in (0, 3):
        rows = np.array([("images/001.A/1.jpg", number)], dtype=[("relative_im_path", "O"), ("class", "O")])
        titles = np.array(["A", "B"], dtype=object)
        savemat(root / "cars_annos.mat", {"annotations": rows[None], "class_names": titles[None]})
        with pytest.raises(DataError, match="class without a name"):
            load(f"cars:{root}")


def test_one_photograph_in_two_archives(root: Path, tmp_path: Path) -> None:
    for part in ("a", "b"):
        with zipfile.ZipFile(tmp_path / f"cub-{part}.zip", "w") as archive:
            archive.write(root / "images" / "001.A" / "1.jpg", "001.A/1.jpg")
    with pytest.raises(DataError, match="remove one of them"):
        load(f"cub:{tmp_path}")


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


@pytest.mark.parametrize(
    ("train", "label", "message"),
    [((4, 4), 77, "labels other than 0-9"), ((3, 4), 1, "differ in size"), ((0, 4), 1, "no images")],
)
def test_digits_that_are_none(tmp_path: Path, train: tuple[int, int], label: int, message: str) -> None:
    for part, size in (("train", train), ("t10k", (4, 4))):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(np.zeros((2, *size))))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx(np.array([label, 7])))
    with pytest.raises(DataError, match=message):
        load(f"mnist:{tmp_path}")


def test_a_file_of_digits_that_would_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "LARGEST", 100_000)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros((1000, 28, 28)))))
    with pytest.raises(DataError, match="more than"):
        load(f"mnist:{tmp_path}")
