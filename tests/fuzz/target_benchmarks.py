"""Published datasets with damaged lists, missing files, links, pipes and paths that lead out of them."""

from __future__ import annotations

import functools
import gzip
import io
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzzing import Target, Wrong
from mutations import damaged, damaged_bytes, damaged_text, encoded, odd_value
from sample_images import photo
from scipy.io import savemat
from target_packages import Files, _unpack

from holdfast.data import ImageTable, load
from holdfast.data.sources import BadImage, FileSource
from holdfast.view import View

BIRDS = [f"{number:03}.Bird_{number}/{i}.jpg" for number in (1, 100, 101, 200) for i in range(2)]
GOODS = [f"{kind}_final/{number}_{i}.JPG" for kind, number in (("lamp", 1), ("sofa", 2)) for i in range(2)]
CLOTHES = [f"img/{kind}/id_0000000{number}/{i}.jpg" for number, kind in enumerate(("MEN/A", "WOMEN/B")) for i in (1, 2)]
ROWS = (
    "../../outside.jpg", "/etc/passwd", "a\\b.jpg", "1,2,3", "1 2 3 4 5", "1", "img/x", ".", "..", "\x00", "~/x.jpg",
    "9 ../../../outside.jpg", "9 9 9 ../../outside.jpg", "9 9 9 /outside.jpg", "../outside.jpg id_1 train",
    "img/../../outside.jpg id_1 query", "9 001.Bird_1/../../../../outside.jpg", "9 /outside.jpg", "\u2028",
)  # fmt: skip
"""Lines for lists, some of which would lead to a file beside the dataset."""


@functools.cache
def _picture() -> bytes:
    return photo(random.Random(0))


def _cub() -> Files:
    listing = "".join(f"{i + 1} {name}\n" for i, name in enumerate(BIRDS))
    return {"images.txt": listing.encode(), **{f"images/{name}": _picture() for name in BIRDS}}


def _sop() -> Files:
    head = "image_id class_id super_class_id path\n"
    lists = {
        f"Ebay_{split}.txt": head + "".join(f"{i + 1} {i // 2 + 1} 1 {name}\n" for i, name in enumerate(names))
        for split, names in (("train", GOODS[:2]), ("test", GOODS[2:]))
    }
    return {**{name: text.encode() for name, text in lists.items()}, **dict.fromkeys(GOODS, _picture())}


def _inshop() -> Files:
    parts = ("train", "train", "query", "gallery")
    lines = "".join(f"{name}  {name.split('/')[3]}  {p}\n" for name, p in zip(CLOTHES, parts, strict=True))
    listing = f"{len(CLOTHES)}\nimage_name item_id evaluation_status\n{lines}"
    return {"list_eval_partition.txt": listing.encode(), **dict.fromkeys(CLOTHES, _picture())}


def _rows(name: str, text: str) -> list[str]:
    """Paths that a list names, read the plain way."""
    lines = [line for line in text.splitlines() if line.strip()]
    if name == "cub":
        return [line.split(None, 1)[1].strip() for line in lines]
    if name == "sop":
        return [line.split()[3] for line in lines[1:]]
    return [line.split()[0] for line in lines[2:]]


LISTED: dict[str, Callable[[], Files]] = {"cub": _cub, "sop": _sop, "inshop": _inshop}


def _listed(draw: random.Random, folder: Path) -> None:
    """A dataset whose lists name its images."""
    name = draw.choice(sorted(LISTED))
    files = LISTED[name]()
    lists = [file for file in files if file.endswith(".txt")]
    hurt = draw.choice(lists)
    if draw.random() < 0.8:
        files[hurt] = _hurt(files[hurt], draw)
    root = folder / "around" / "set"
    _unpack(files, root)
    (folder / "outside.jpg").write_bytes(_picture())
    (folder / "around" / "outside.jpg").write_bytes(_picture())
    if draw.random() < 0.4:
        _replace(root, draw.choice(sorted(files)), draw)
    source = root
    if draw.random() < 0.2 and not any(path.is_fifo() for path in root.rglob("*")):
        source = Path(shutil.make_archive(str(folder / "packed"), "zip", root)) if _plain(root) else root
    table = load(f"{name}:{source}", skip_bad=draw.random() < 0.5, validation=0)
    _look(table, root)
    if name == "cub" and not (root / "images.txt").is_file():  # then its folders say what it holds
        return
    expected = [row for file in lists for row in _rows(name, (root / file).read_bytes().decode("utf-8-sig", "replace"))]
    ending = [identity.endswith(row) for identity, row in zip(table.ids, expected, strict=False)]
    if len(table) != len(expected) or not all(ending):
        raise Wrong(f"{len(expected)} listed, {len(table)} in the table, or others: {expected} {table.ids}")
    unlisted = len({p for p in files if p.endswith((".jpg", ".JPG")) and (root / p).is_file()}) - len(set(expected))
    if len(table.skipped_files.unplaced) < unlisted:
        raise Wrong(f"{unlisted} images are not listed; {table.skipped_files}")


def _hurt(content: bytes, draw: random.Random) -> bytes:
    text = content.decode()
    kind = draw.randrange(6)
    if kind == 0:
        return damaged_bytes(content, draw)
    if kind == 1:
        lines = text.splitlines()
        lines.insert(draw.randrange(len(lines) + 1), draw.choice(ROWS))
        return "\n".join(lines).encode()
    if kind == 2:
        return text.replace(" ", draw.choice(("\t", ",", ";", "", "  ", "\u00a0"))).encode()
    if kind == 3:
        return text.replace("/", draw.choice(("\\", "//", "/./", "/../"))).encode()
    if kind == 4:
        return "\n".join(text.splitlines() * 2).encode()
    return encoded(damaged_text(text, draw), draw)


def _replace(root: Path, name: str, draw: random.Random) -> None:
    """Something else where a file was: nothing, a link, a pipe, a folder, no image."""
    path = root / name
    path.unlink()
    kind = draw.randrange(6)
    if kind == 1:
        path.symlink_to(draw.choice(("/dev/zero", "nowhere", path.name, ".", "../../outside.jpg", "/dev/stdin")))
    elif kind == 2:
        os.mkfifo(path)
    elif kind == 3:
        path.mkdir()
    elif kind == 4:
        path.write_bytes(draw.choice((b"", b"no image", b"\xff\xfe\x00", b"\n" * 10)))


def _plain(root: Path) -> bool:
    """Whether everything in a folder can be packed."""
    return all(path.is_file() or (path.is_dir() and not path.is_symlink()) for path in root.rglob("*"))


def _look(table: ImageTable, root: Path) -> None:
    """Every row is an image below the root, or says in one line why not."""
    if isinstance(table.source, FileSource):
        for path in table.source.paths:
            if not Path(os.path.normpath(path)).is_relative_to(root):
                raise Wrong(f"{path} lies outside {root}")
    for position in table.positions:
        try:
            table.source.image(int(position), View(8))
        except BadImage as error:
            if "\n" in str(error):
                raise Wrong(f"more than one line: {error}") from error


def _cars(draw: random.Random, folder: Path) -> None:
    numbers, names = [1, 98, 99, 196], [f"car_ims/{i:06}.jpg" for i in range(4)]
    _unpack(dict.fromkeys(names, _picture()), folder / "set")
    rows: list[list[Any]] = [[name, 1, number, 0] for name, number in zip(names, numbers, strict=True)]
    kind = draw.randrange(4)
    if kind == 1:
        rows[draw.randrange(4)][draw.choice((0, 2))] = draw.choice((odd_value(draw), 0, -1, 197, "../../outside.jpg"))
    elif kind == 2:
        rows = [row for row in damaged(rows, draw) if isinstance(row, list) and len(row) == 4]
    content = _mat(rows, draw.choice((196, 196, 100, 0)) if kind == 3 else 196, draw)
    if content is None:
        return
    whole = draw.random() < 0.4
    if not whole:
        content = damaged_bytes(content, draw)
    (folder / "set" / "cars_annos.mat").write_bytes(content)
    if draw.random() < 0.2:
        _replace(folder / "set", draw.choice((*names, "cars_annos.mat")), draw)
    table = load(f"cars:{folder / 'set'}", skip_bad=draw.random() < 0.5, validation=0)
    # scipy, which could count the rows of a damaged file, dies of some.
    if whole and (folder / "set" / "cars_annos.mat").is_file() and len(rows) != len(table):
        raise Wrong(f"{len(rows)} listed, {len(table)} in the table")
    _look(table, folder / "set")


def _mat(rows: list[list[Any]], titles: int, draw: random.Random) -> bytes | None:
    """The file of annotations; None for values that the format cannot hold."""
    names = ["relative_im_path", "bbox_x1", "class", "test"]
    if draw.random() < 0.1:
        names[draw.randrange(4)] = "other"
    out = io.BytesIO()
    try:
        table = np.array([tuple(row) for row in rows], dtype=[(name, "O") for name in names])
        words = np.array([f"Model {i + 1}" for i in range(titles)], dtype=object)
        savemat(out, {"annotations": table[None], "class_names": words[None]}, do_compression=draw.random() < 0.5)
    except Exception:
        return None
    return out.getvalue()


def _omniglot(draw: random.Random, folder: Path) -> None:
    root, tops = folder / "set", ("images_background", "images_evaluation")
    names = [
        f"{top}/{a}/{c}/{i}.png" for top in tops for a in ("Greek", "日本") for c in ("c1", "c2") for i in range(2)
    ]
    for i in range(len(names)):
        if draw.random() < 0.1:
            names[i] = draw.choice(
                (names[i].replace("/", "//"), names[i].upper(), f"a/{names[i]}", names[i][18:], "x.png")
            )
    _unpack(dict.fromkeys(names, _picture()), root)
    there = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    packed = draw.random() < 0.3
    if packed:
        for top in sorted({name.split("/")[0] for name in there}):
            if top in tops:
                shutil.make_archive(str(folder / top), "zip", root, top)
        there = [name for name in there if name.split("/")[0] in tops]
        for archive in folder.glob("*.zip"):
            if draw.random() < 0.2:
                archive.write_bytes(damaged_bytes(archive.read_bytes(), draw))
                there = []
    elif draw.random() < 0.3:
        _replace(root, draw.choice(there), draw)
        there = []
    table = load(f"omniglot:{folder if packed and list(folder.glob('*.zip')) else root}", validation=0)
    if there and sorted((*table.ids, *table.skipped_files.unplaced)) != there:
        raise Wrong(f"{there} are {table.ids} and {table.skipped_files.unplaced}")
    _look(table, root)


@functools.cache
def _digits() -> Files:
    draw = np.random.default_rng(0)
    files = {}
    for part, count in (("train", 20), ("t10k", 10)):
        pixels, labels = draw.integers(0, 256, (count, 4, 4), np.uint8), (np.arange(count) % 10).astype(np.uint8)
        for name, array in ((f"{part}-images-idx3-ubyte", pixels), (f"{part}-labels-idx1-ubyte", labels)):
            files[name] = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes() + array.tobytes()
    return files


def _mnist(draw: random.Random, folder: Path) -> None:
    files = dict(_digits())
    for name in draw.sample(sorted(files), draw.choice((0, 1, 1, 2))):
        head = 16 if "images" in name else 8
        if draw.random() < 0.5:
            at = draw.randrange(head)
            changed = bytes([draw.choice((0, 1, 2, 3, 9, 20, 255))])
            files[name] = files[name][:at] + changed + files[name][at + 1 :]
        else:
            files[name] = damaged_bytes(files[name], draw)
    whole = files
    if draw.random() < 0.5:
        files = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}
        if draw.random() < 0.3:
            name = draw.choice(sorted(files))
            files[name] = draw.choice((damaged_bytes(files[name], draw), files[name] * 2, _bomb()))
    _unpack(files, folder / "set")
    if draw.random() < 0.1:
        _replace(folder / "set", draw.choice(sorted(files)), draw)
    table = load({"name": "mnist", "root": str(folder / "set"), "protocol": "official"})
    labels = b"".join(whole[f"{part}-labels-idx1-ubyte"][8:] for part in ("train", "t10k"))
    if [int(table.class_names[label]) for label in table.labels] != list(labels):
        raise Wrong(f"{list(labels)} became {[table.class_names[label] for label in table.labels]}")
    _look(table, folder)


@functools.cache
def _bomb() -> bytes:
    """Half a gigabyte of nothing."""
    with tempfile.TemporaryFile() as file:
        with gzip.GzipFile(fileobj=file, mode="wb") as packed:
            for _ in range(512):
                packed.write(bytes(2**20))
        file.seek(0)
        return file.read()


TARGETS = (
    Target("dataset-lists", _listed, 40),
    Target("dataset-cars", _cars, 30),
    Target("dataset-omniglot", _omniglot, 8),
    Target("dataset-mnist", _mnist, 20),
)
