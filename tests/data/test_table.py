from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.data import ImageTable
from holdfast.data.sources import ArraySource
from holdfast.errors import DataError
from holdfast.view import View

IMAGES = np.random.default_rng(0).integers(0, 256, (8, 6, 6, 3), dtype=np.uint8)


def table() -> ImageTable:
    return ImageTable.of(
        ArraySource(IMAGES),
        classes=list("bbaaccdd"),
        splits=["train"] * 4 + ["test"] * 4,
        ids=[str(i) for i in range(8)],
        name="letters",
        coarse=["x"] * 4 + ["y"] * 4,
        groups=["g1", "g2"] * 4,
    )


def test_labels_count_names_in_order_of_appearance() -> None:
    t = table()
    assert t.class_names == ["b", "a", "c", "d"]
    assert t.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert t.coarse is not None
    assert t.coarse.tolist() == [0] * 4 + [1] * 4
    assert t.coarse_names == ["x", "y"]
    assert t.groups is not None
    assert t.groups.tolist() == [0, 1] * 4
    assert len(t) == 8


@given(st.lists(st.integers(0, 7), max_size=12), st.lists(st.integers(0, 100), max_size=5))
def test_subsets_of_subsets_show_the_same_rows(rows: list[int], again: list[int]) -> None:
    sub = table().subset(rows)
    again = [i % len(rows) for i in again] if rows else []
    twice = sub.subset(again)
    expected = [rows[i] for i in again]
    assert twice.ids == [str(i) for i in expected]
    assert twice.labels.tolist() == [table().labels[i] for i in expected]
    assert np.array_equal(twice.read(range(len(twice)), View(6)).pixels, IMAGES[expected].reshape(-1, 3))


def test_subset_by_mask_and_by_tensor_agree() -> None:
    mask = np.array([True, False] * 4)
    assert table().subset(mask).ids == table().subset(torch.tensor([0, 2, 4, 6])).ids == ["0", "2", "4", "6"]


def test_split_and_has() -> None:
    t = table()
    assert t.split("test").ids == ["4", "5", "6", "7"]
    assert t.has("train")
    assert not t.has("query")
    with pytest.raises(DataError, match="it has: train, test"):
        t.split("query")
    with pytest.raises(DataError, match="did you mean 'train'"):
        t.split("trian")


def test_read_gives_each_image_in_its_shape() -> None:
    images = table().read(torch.tensor([3, 1]), View(6))
    assert np.array_equal(images.arrays(), IMAGES[[3, 1]])
    assert table().read([0], View(12)).arrays()[0].shape == (12, 12, 3)


def test_compacted_labels_are_gapless_and_keep_classes_apart() -> None:
    test = table().split("test")
    assert test.compacted("fine").tolist() == [0, 0, 1, 1]
    assert test.compacted("coarse").tolist() == [0, 0, 0, 0]
    assert test.labels_for("coarse").tolist() == [1, 1, 1, 1]


def test_coarse_labels_that_are_not_there() -> None:
    t = ImageTable.of(ArraySource(IMAGES), classes=["a"] * 8, splits=["train"] * 8, ids=list("abcdefgh"), name="n")
    with pytest.raises(DataError, match="no coarse labels"):
        t.labels_for("coarse")


def test_nothing_changes_in_place() -> None:
    t = table()
    with pytest.raises(ValueError, match="read-only"):
        t.labels[0] = 3
    mine = t.splits.copy()
    t.with_splits(mine)
    mine[0] = "val"  # what the caller passed in is not locked
    with pytest.raises(FrozenInstanceError):
        t.name = "other"  # type: ignore[misc]


def test_columns_must_agree() -> None:
    with pytest.raises(ValueError, match="splits"):
        ImageTable.of(ArraySource(IMAGES), classes=["a"] * 8, splits=["train"], ids=list("abcdefgh"), name="n")
    with pytest.raises(DataError, match="unknown split"):
        ImageTable.of(ArraySource(IMAGES), classes=["a"] * 8, splits=["x"] * 8, ids=list("abcdefgh"), name="n")


def test_repr_counts() -> None:
    assert repr(table()) == "ImageTable(letters: 8 images of 4 classes; train 4, test 4)"
