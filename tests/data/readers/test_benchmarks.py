"""The benchmarks on tiny copies of their official layouts, and on the shared archives where they are at hand."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
from pictures import Paint
from scipy.io import savemat

from holdfast.data import ImageTable, load
from holdfast.errors import DataError
from holdfast.view import View


def summary(table: ImageTable) -> list[tuple[str, str, str]]:
    """Id, class and split of each row."""
    classes = [table.class_names[label] for label in table.labels]
    return list(zip(table.ids, classes, table.splits.tolist(), strict=True))


def coarse_of(table: ImageTable) -> list[str]:
    assert table.coarse is not None
    assert table.coarse_names is not None
    return [table.coarse_names[c] for c in table.coarse]


def readable(table: ImageTable) -> bool:
    return table.read(range(len(table)), View(24)).shorter == 24


# CUB-200-2011

BIRDS = ["001.Black_footed_Albatross/a.jpg", "100.Brown_Pelican/b.jpg", "101.White_Pelican/c.jpg", "200.Wren/d.jpg"]


@pytest.fixture
def cub(paint: Paint, tmp_path: Path) -> Path:
    root = tmp_path / "data" / "CUB_200_2011"
    for name in BIRDS:
        paint(f"data/CUB_200_2011/images/{name}")
        paint(f"data/CUB_200_2011/segmentations/{name}".replace(".jpg", ".png"))
    (root / "images.txt").write_text("".join(f"{i + 1} {name}\n" for i, name in enumerate(BIRDS)))
    return root


def test_cub_as_published(cub: Path) -> None:
    table = load(f"cub:{cub}")
    splits = ["train", "train", "test", "test"]
    assert summary(table) == [(name, name.split("/")[0], s) for name, s in zip(BIRDS, splits, strict=True)]
    assert readable(table)
    assert summary(load(f"cub:{cub.parent}")) == summary(table)


def test_cub_in_archives(cub: Path, tmp_path: Path) -> None:
    for part, names in (("train", BIRDS[:2]), ("test", BIRDS[2:])):
        for name in names:
            (tmp_path / "packed" / part / name).parent.mkdir(parents=True)
            shutil.copy(cub / "images" / name, tmp_path / "packed" / part / name)
        shutil.make_archive(str(tmp_path / f"cub200-256-{part}"), "zip", tmp_path / "packed", part)
    table = load(f"cub:{tmp_path}")
    assert [row[1:] for row in summary(table)] == [row[1:] for row in summary(load(f"cub:{cub}"))]
    assert readable(table)


def test_cub_with_missing_photographs(cub: Path) -> None:
    (cub / "images" / BIRDS[1]).unlink()
    with pytest.raises(DataError, match=r"1 of the files.*b\.jpg"):
        load(f"cub:{cub}")
    assert len(load(f"cub:{cub}", skip_bad=True)) == 4


def test_cub_counts_of_the_shared_archives(shared: Path) -> None:
    table = load(f"cub:{shared}", validation=0)
    assert len(table.split("train")) == 5864
    assert len(table.split("test")) == 5924
    assert len(table.class_names) == 200
    assert len(set(table.split("train").labels)) == 100
    assert table.source.image(0).shape == (256, 256, 3)
    assert [table.class_names[0], table.class_names[199]] == [
        "001.Black_footed_Albatross",
        "200.Common_Yellowthroat",
    ]
    validation = load(f"cub:{shared}").split("val")
    assert len(set(validation.labels)) == 10
    assert validation.labels.max() < 100


# Cars196


def test_cars_as_published(paint: Paint, tmp_path: Path) -> None:
    numbers = [1, 98, 99, 196]
    names = [f"car_ims/{i:06}.jpg" for i in range(4)]
    for name in names:
        paint(f"cars/{name}")
    kind = [("relative_im_path", "O"), ("bbox_x1", "O"), ("class", "O"), ("test", "O")]
    rows = np.array([(name, 1, number, 0) for name, number in zip(names, numbers, strict=True)], dtype=kind)
    titles = np.array([f"Model {i + 1}" for i in range(196)], dtype=object)
    savemat(tmp_path / "cars" / "cars_annos.mat", {"annotations": rows[None], "class_names": titles[None]})
    table = load(f"cars:{tmp_path / 'cars'}")
    assert summary(table) == [
        (name, f"Model {number}", "train" if number <= 98 else "test")
        for name, number in zip(names, numbers, strict=True)
    ]
    assert readable(table)
    (tmp_path / "cars" / names[2]).unlink()
    with pytest.raises(DataError, match="1 of the files"):
        load(f"cars:{tmp_path / 'cars'}")
    (tmp_path / "cars" / "cars_annos.mat").write_bytes(b"no matlab file at all")
    with pytest.raises(DataError, match="fetch it again"):
        load(f"cars:{tmp_path / 'cars'}")


def test_cars_in_archives(paint: Paint, tmp_path: Path) -> None:
    models = ["001.AM_General_Hummer", "098.Dodge_Ram", "099.Dodge_Sprinter", "196.smart_fortwo"]
    for model, part, archive in zip(models, ("train", "train", "test", "test"), "abba", strict=True):
        paint(f"{archive}/{part}/{model}/2_b.webp")
        paint(f"{archive}/{part}/{model}/1_a.webp")
    (tmp_path / "packed").mkdir()
    for archive in "ab":
        shutil.make_archive(str(tmp_path / "packed" / f"cars-{archive}"), "zip", tmp_path / archive)
    table = load(f"cars:{tmp_path / 'packed'}", validation=0)
    splits = ["train", "train", "test", "test"]
    assert [row[1:] for row in summary(table)] == [
        (model, split) for model, split in zip(models, splits, strict=True) for _ in range(2)
    ], "by their own numbers, though most of the 196 are not there"
    assert table.ids[:2] == [f"train/{models[0]}/{name}.webp" for name in ("1_a", "2_b")]
    assert table.class_names == models
    assert readable(table)


def test_cars_in_class_folders(paint: Paint, tmp_path: Path) -> None:
    for i in range(100):
        paint(f"cars/{('train', 'test')[i % 2]}/Model {i:03}/1.jpg")
    paint("cars/test/Model 000/2.jpg")
    table = load(f"cars:{tmp_path / 'cars'}", validation=0)
    assert len(set(table.split("train").labels)) == 98
    assert {table.class_names[label] for label in table.split("test").labels} == {"Model 098", "Model 099"}
    assert len(table.split("train")) == 99


# Stanford Online Products


def test_sop_as_published(paint: Paint, tmp_path: Path) -> None:
    root = tmp_path / "data" / "Stanford_Online_Products"
    rows = {
        "train": [
            (1, 1, 1, "bicycle_final/11_0.JPG"),
            (2, 1, 1, "bicycle_final/11_1.JPG"),
            (3, 2, 2, "lamp_final/2_0.JPG"),
        ],
        "test": [(4, 3, 2, "lamp_final/3_0.JPG")],
    }
    for split, lines in rows.items():
        for line in lines:
            paint(f"data/Stanford_Online_Products/{line[3]}")
        text = "image_id class_id super_class_id path\n" + "".join(" ".join(map(str, line)) + "\n" for line in lines)
        (root / f"Ebay_{split}.txt").write_text(text)
    table = load(f"sop:{root}")
    assert summary(table) == [
        ("bicycle_final/11_0.JPG", "1", "train"),
        ("bicycle_final/11_1.JPG", "1", "train"),
        ("lamp_final/2_0.JPG", "2", "train"),
        ("lamp_final/3_0.JPG", "3", "test"),
    ]
    assert coarse_of(table) == ["bicycle", "bicycle", "lamp", "lamp"]
    assert readable(table)
    assert load(f"sop:{root.parent}").splits.tolist() == table.splits.tolist()
    (root / "lamp_final" / "3_0.JPG").unlink()
    with pytest.raises(DataError, match="1 of the files"):
        load(f"sop:{root}")
    (root / "Ebay_test.txt").write_text("header\n1 2 broken\n")
    with pytest.raises(DataError, match="fetch it again"):
        load(f"sop:{root}")


# In-shop


@pytest.mark.parametrize(("images", "listing"), [("", ""), ("Img/", "Eval/")])
def test_inshop_as_published(paint: Paint, tmp_path: Path, images: str, listing: str) -> None:
    rows = [
        ("img/WOMEN/Dresses/id_00000002/02_1_front.jpg", "id_00000002", "train"),
        ("img/MEN/Shorts/id_00000003/01_1_front.jpg", "id_00000003", "query"),
        ("img/MEN/Shorts/id_00000003/01_2_side.jpg", "id_00000003", "gallery"),
    ]
    for name, _, _ in rows:
        paint(f"inshop/{images}{name}")
    file = tmp_path / "inshop" / listing / "list_eval_partition.txt"
    file.parent.mkdir(exist_ok=True)
    lines = "".join(f"{name}    {item}   {part}\n" for name, item, part in rows)
    file.write_text(f"{len(rows)}\nimage_name item_id evaluation_status\n{lines}")
    table = load(f"inshop:{tmp_path / 'inshop'}")
    assert summary(table) == rows
    assert coarse_of(table) == ["WOMEN/Dresses", "MEN/Shorts", "MEN/Shorts"]
    assert readable(table)
    (tmp_path / "inshop" / images / rows[0][0]).unlink()
    with pytest.raises(DataError, match="1 of the files"):
        load(f"inshop:{tmp_path / 'inshop'}")
    file.write_text("0\nheader\nonly two\n")
    with pytest.raises(DataError, match="fetch it again"):
        load(f"inshop:{tmp_path / 'inshop'}")


# Omniglot


def test_omniglot_as_folders_and_archives(paint: Paint, tmp_path: Path) -> None:
    names = [
        "images_background/Greek/character01/0001_01.png",
        "images_background/Greek/character02/0002_01.png",
        "images_background/Latin/character01/0003_01.png",
        "images_evaluation/Tengwar/character01/0004_01.png",
    ]
    for name in names:
        paint(f"omniglot/{name}")
        paint(f"omniglot/strokes/{name}".replace("images_", "strokes_"))
    table = load(f"omniglot:{tmp_path / 'omniglot'}")
    assert [row[1:] for row in summary(table)] == [
        ("Greek/character01", "train"),
        ("Greek/character02", "train"),
        ("Latin/character01", "train"),
        ("Tengwar/character01", "test"),
    ]
    assert coarse_of(table) == ["Greek", "Greek", "Latin", "Tengwar"]
    (tmp_path / "one").mkdir()
    shutil.make_archive(str(tmp_path / "one" / "omniglot"), "zip", tmp_path, "omniglot")
    (tmp_path / "two").mkdir()
    for part in ("images_background", "images_evaluation"):
        shutil.make_archive(str(tmp_path / "two" / part), "zip", tmp_path / "omniglot", part)
    for root in ("one", "two", "one/omniglot.zip"):
        packed = load(f"omniglot:{tmp_path / root}")
        assert [row[1:] for row in summary(packed)] == [row[1:] for row in summary(table)]
        read = (table.read(range(4), View(24)).arrays() for table in (packed, table))
        assert all(map(np.array_equal, *read))
    with pytest.raises(DataError, match="does not hold Omniglot"):
        load(f"omniglot:{tmp_path / 'two' / 'images_background.zip'}")


def test_omniglot_counts_of_the_shared_archive(shared: Path) -> None:
    table = load(f"omniglot:{shared}", labels="coarse", validation=0)
    assert len(table) == 32460
    assert len(table.class_names) == 1623
    assert table.coarse is not None
    train, test = table.split("train"), table.split("test")
    assert [len(set(t.labels_for("coarse"))) for t in (train, test)] == [30, 20]
    assert [len(set(t.labels)) for t in (train, test)] == [964, 659]
    assert table.source.image(0).shape == (105, 105, 3)
    assert table.read([0, 32459], View(105)).pixels.float().mean() > 200  # black strokes on white


# MNIST


def write_idx(path: Path, array: np.ndarray, packed: bool) -> None:
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
    content = header + array.astype(np.uint8).tobytes()
    if packed:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)


@pytest.mark.parametrize("packed", [True, False])
def test_mnist_idx_files(tmp_path: Path, packed: bool) -> None:
    rng = np.random.default_rng(0)
    images = {part: rng.integers(0, 256, (20, 28, 28)) for part in ("train", "t10k")}
    digits = np.arange(20) % 10
    for part, pixels in images.items():
        write_idx(tmp_path / f"{part}-images-idx3-ubyte", pixels, packed)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", digits, packed)
    table = load(f"mnist:{tmp_path}")
    train, test = table.split("train"), table.split("test")
    assert {table.class_names[label] for label in train.labels} == set("012345")
    assert {table.class_names[label] for label in test.labels} == set("6789")
    assert np.array_equal(np.stack(train.read(range(12), View(28)).arrays())[..., 0], images["train"][digits <= 5])
    assert np.array_equal(np.stack(test.read(range(8), View(28)).arrays())[..., 2], images["t10k"][digits > 5])
    assert set(zip((table.class_names[label] for label in table.labels), coarse_of(table), strict=True)) == {
        (str(d), "odd" if d % 2 else "even") for d in range(10)
    }
    assert len(load(f"mnist:{tmp_path}", protocol="official")) == 40
    seen = load(f"mnist:{tmp_path}", protocol="seen")
    assert np.array_equal(seen.split("train").labels, train.labels)
    held_out = seen.split("test").read(range(12), View(28)).arrays()
    assert np.array_equal(np.stack(held_out)[..., 0], images["t10k"][digits <= 5])


def test_mnist_files_that_are_broken(tmp_path: Path) -> None:
    for part in ("train", "t10k"):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte", np.zeros((4, 28, 28)), True)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", np.zeros(3), True)
    with pytest.raises(DataError, match="4 train images but 3 labels"):
        load(f"mnist:{tmp_path}")
    file = tmp_path / "train-images-idx3-ubyte.gz"
    whole = file.read_bytes()
    plain = gzip.decompress(whole)
    for broken in (
        whole[:-20],
        b"not gzip",
        b"",
        gzip.compress(plain[:100]),
        gzip.compress(plain[:3]),
        gzip.compress(b"x" * 99),
    ):
        file.write_bytes(broken)
        with pytest.raises(DataError, match="not an idx file"):
            load(f"mnist:{tmp_path}")


def test_mnist_counts_of_the_shared_files(shared: Path) -> None:
    table = load(f"mnist:{shared / 'mnist'}")
    assert len(table.split("train")) == 36017
    assert len(table.split("test")) == 3969
    assert len(load(f"mnist:{shared / 'mnist'}", protocol="official")) == 70000
    assert len(load(f"mnist:{shared / 'mnist'}", protocol="seen").split("test")) == 10000 - 3969
