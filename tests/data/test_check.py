from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from pictures import Paint, painted
from PIL import Image

from holdfast.data import ImageTable, Problem, Reader, build, check, load
from holdfast.data.check import near_duplicates, to_grey
from holdfast.data.sources import ArraySource
from holdfast.data.splits import with_validation
from holdfast.errors import DataError


def of_arrays(
    rows: list[tuple[str, str]], seeds: list[int] | None = None, groups: list[str] | None = None
) -> ImageTable:
    """Rows of (class, split), each with a picture of its own unless seeds say otherwise."""
    seeds = seeds if seeds is not None else list(range(len(rows)))
    return ImageTable.of(
        ArraySource(np.stack([np.asarray(painted(seed)) for seed in seeds])),
        classes=[c for c, _ in rows],
        splits=[s for _, s in rows],
        ids=[f"{c}-{i}" for i, (c, _) in enumerate(rows)],
        name="n",
        groups=groups,
    )


def kinds(problems: list[Problem]) -> list[str]:
    for problem in problems:
        assert problem.how_to_mend
        assert "\n" not in problem.what + problem.how_to_mend
    return [problem.kind for problem in problems]


def found(data: ImageTable | Reader) -> list[Problem]:
    """Problems without those of few classes, which every small table has."""
    return [problem for problem in check(data) if problem.kind not in ("small-validation", "too-few-classes")]


GOOD = [("a", "train")] * 2 + [("b", "val")] * 2 + [("c", "test")] * 2


def test_a_clean_table_has_no_problems() -> None:
    assert found(of_arrays(GOOD)) == []


def test_a_class_with_one_image() -> None:
    (problem,) = found(of_arrays([*GOOD, ("lonely", "test")]))
    assert problem.kind == "single-image-class"
    assert "lonely" in problem.what
    assert problem.rows == [6]


@pytest.mark.parametrize(("one", "other"), [("train", "test"), ("val", "test"), ("train", "gallery"), ("train", "val")])
def test_a_label_on_both_sides(one: str, other: str) -> None:
    gallery = [("q", "query"), ("q", "gallery")]
    (problem,) = found(of_arrays([("x", one)] * 2 + [("x", other)] * 2 + [("y", "test")] * 2 + gallery))
    assert problem.kind == "shared-label"
    assert "(x)" in problem.what
    assert problem.rows == [0, 1, 2, 3]


def test_queries_need_a_gallery_image_of_their_label() -> None:
    rows = [("a", "query"), ("a", "gallery"), ("b", "query"), ("c", "gallery")]
    (problem,) = found(of_arrays(rows))
    assert (problem.kind, problem.rows) == ("query-without-match", [2])


def test_a_match_of_the_same_group_is_none() -> None:
    rows = [("a", "query"), ("a", "gallery"), ("b", "query"), ("b", "gallery"), ("b", "gallery")]
    (problem,) = found(of_arrays(rows, groups=["cam1", "cam1", "cam1", "cam1", "cam2"]))
    assert (problem.kind, problem.rows) == ("query-without-match", [0])


def test_the_same_picture_in_two_splits() -> None:
    (problem,) = found(of_arrays(GOOD, seeds=[1, 2, 3, 4, 5, 1]))
    assert (problem.kind, problem.rows) == ("near-duplicate", [0, 5])
    assert "a-0 and c-5" in problem.what
    assert found(of_arrays(GOOD, seeds=[1, 1, 3, 3, 5, 5])) == []  # within a split it does no harm


def test_copies_are_found_among_many_pictures() -> None:
    def recompressed(image: Image.Image, side: int, quality: int) -> np.ndarray:
        file = io.BytesIO()
        image.resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=quality)
        small = Image.open(file).convert("RGB").resize((32, 32), Image.Resampling.BILINEAR)
        return np.clip(np.asarray(small, np.float32) * 0.9 + 10, 0, 255).astype(np.uint8)  # and darker

    first = np.stack([np.asarray(painted(i, 32, 32)) for i in range(300)])
    copies = np.stack([recompressed(painted(i, 200, 200), 120, 70) for i in range(20)])
    others = np.stack([np.asarray(painted(1000 + i, 32, 32)) for i in range(300)])
    pairs = near_duplicates(to_grey(first), to_grey(np.concatenate((others, copies))))
    assert {(i, i + 300) for i in range(20)} == {(int(i), int(j)) for i, j in pairs}


def test_same_outline_but_different_picture_is_no_copy() -> None:
    """Equal hashes are only candidates: fine detail decides."""
    rng = np.random.default_rng(0)
    a = np.full((1, 32, 32), 128, np.uint8)
    b = a.copy()
    a[0, ::2, 10:20] = 140
    b[0, 1::2, 10:20] = 140
    assert len(near_duplicates(a, b)) == 0
    assert len(near_duplicates(a, a)) == 1
    blank = np.full((1, 32, 32), 200, np.uint8)
    assert len(near_duplicates(blank, blank)) == 1
    assert len(near_duplicates(blank, rng.integers(0, 256, (1, 32, 32), dtype=np.uint8))) == 0
    assert near_duplicates(a[:0], b).shape == (0, 2)


def test_a_folder_with_stray_and_broken_files(paint: Paint, tmp_path: Path) -> None:
    root = tmp_path / "set"
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
        paint(f"set/{name}")
    (root / "a" / "notes.txt").write_text("x")
    paint("set/loose.png")
    (root / "b" / "2.png").write_bytes(b"broken")
    paint("set/b/3.png")
    problems = found(build("folder", root=str(root)))
    assert kinds(problems) == ["ignored-file", "ignored-file", "unreadable-image"]
    assert "1 file is no image by extension (.txt 1: a/notes.txt)" in problems[0].what
    assert "1 image is in no class folder or list (loose.png)" in problems[1].what
    assert "b/2.png" in problems[2].what
    assert problems[2].rows == [3]


def test_a_file_listed_twice(paint: Paint, tmp_path: Path) -> None:
    for number in range(1, 5):
        paint(f"{number}.png")
    rows = ["1.png,a", "2.png,a", "3.png,b", "4.png,b", "3.png,b"]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
    (problem,) = found(build("csv", file=str(tmp_path / "list.csv")))
    assert (problem.kind, problem.rows) == ("listed-twice", [2, 4])
    assert "1 file is listed more than once (3.png)" in problem.what


def test_a_list_with_missing_files(paint: Paint, tmp_path: Path) -> None:
    for name in ("1.png", "2.png", "3.png", "4.png"):
        paint(name)
    (tmp_path / "list.csv").write_text("path,label\n1.png,a\n2.png,a\n3.png,b\n4.png,b\ngone.png,b\n")
    problems = found(build("csv", file=str(tmp_path / "list.csv")))
    assert kinds(problems) == ["missing-file"]
    assert problems[0].rows == [4]


@pytest.mark.parametrize(
    ("splits", "told"),
    [
        ({"train": 8, "val": 2, "test": 5}, "2 classes with 40 images for validation"),
        ({"train": 8, "val": 1, "test": 5}, "1 class with 20 images for validation"),
        ({"train": 8, "val": 5, "test": 5}, None),
        ({"train": 5, "test": 5}, "5 classes to train on: too few to hold any out"),
        ({"train": 8, "test": 5}, None),
        ({"query": 3, "gallery": 3}, None),
    ],
)
def test_validation_that_is_too_small_to_choose_an_epoch(splits: dict[str, int], told: str | None) -> None:
    rows = [(f"{split}-{c}", split) for split, count in splits.items() for c in range(count) for _ in range(20)]
    table = of_arrays(rows, seeds=[0] * len(rows))
    warned = [problem for problem in check(table) if problem.kind == "small-validation"]
    assert [told in problem.what for problem in warned] == ([True] if told else [])
    assert not any(problem.serious for problem in warned)


@pytest.mark.parametrize(
    ("train", "val", "advice"),
    [
        (4, 2, "add classes"),  # no fraction holds out more
        (5, 2, "add classes, or hold more out: --set data.validation=0.4"),
        (18, 2, "add classes, or hold more out: --set data.validation=0.3"),
        (1, 2, "add classes"),
    ],
)
def test_only_advice_that_helps_is_given(train: int, val: int, advice: str) -> None:
    rows = [(f"train-{c}", "train") for c in range(train) for _ in range(3)]
    rows += [(f"val-{c}", "val") for c in range(val) for _ in range(3)]
    rows += [("test-1", "test")] * 3 + [("test-2", "test")] * 3
    table = of_arrays(rows, seeds=[0] * len(rows))
    (problem,) = [problem for problem in check(table) if problem.kind in ("small-validation", "too-few-classes")]
    assert problem.how_to_mend == advice
    assert problem.kind == ("too-few-classes" if train < 2 else "small-validation")
    if "data.validation" in advice:
        joined = table.with_splits(np.where(table.splits == "val", "train", table.splits))
        more = with_validation(joined, float(advice.rpartition("=")[2]), 0)
        assert len(set(more.labels[more.splits == "val"])) > val


def test_what_pillow_warns_of_is_said_in_words_and_not_printed(
    paint: Paint, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
        paint(f"set/{name}")
    damaged = b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01\x03\0"
    painted(7).save(tmp_path / "set" / "b" / "3.jpg", exif=damaged)
    (problem,) = found(build("folder", root=str(tmp_path / "set")))
    assert (problem.kind, problem.serious) == ("odd-image", False)
    assert problem.what == ("1 image: the metadata (EXIF) are damaged, so the image may not stand upright (b/3.jpg)")
    assert not [warning for warning in recwarn if "EXIF" in str(warning.message)]


def test_links_out_of_the_folder_are_followed_only_when_asked(paint: Paint, tmp_path: Path) -> None:
    for name in ("set/a/1.png", "set/a/2.png", "set/b/1.png", "set/b/2.png", "other/c/1.png", "other/c/2.png"):
        paint(name)
    root = tmp_path / "set"
    (root / "c").symlink_to(tmp_path / "other" / "c")
    (root / "b" / "3.png").symlink_to(tmp_path / "other" / "c" / "1.png")
    (root / "b" / "4.png").symlink_to("1.png")
    (problem,) = found(build("folder", root=str(root)))
    assert (problem.kind, problem.serious) == ("link-out", False)
    assert "2 links are not followed: out of the folder (b/3.png, c)" in problem.what
    ids = build("folder", root=str(root)).table().ids
    assert [name for name in ids if name.startswith(("b/", "c"))] == ["b/1.png", "b/2.png", "b/4.png"]
    assert "c/1.png" in load(f"{{name: folder, root: {root}, follow_links: true}}").ids
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
        (root / name).unlink()
    with pytest.raises(DataError, match=r"--data '\{name: folder, root: .*, follow_links: true\}'"):
        build("folder", root=str(root)).table()


def test_a_name_that_is_no_text_does_not_stop_the_check(paint: Paint, tmp_path: Path) -> None:
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
        paint(f"set/{name}")
    root = tmp_path / "set"
    try:
        (root / "b" / os.fsdecode(b"na\xefve.png")).write_bytes((root / "b" / "1.png").read_bytes())
    except OSError:
        pytest.skip("this file system takes only names in UTF-8")
    reader = build("folder", root=str(root))
    (problem,) = found(reader)
    assert (problem.kind, problem.serious) == ("bad-name", True)
    assert problem.what == "1 name is not in UTF-8 (b/na\\udcefve.png)"
    with pytest.raises(DataError, match="not in UTF-8"):
        reader.table()
