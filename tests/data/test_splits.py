from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import data
from holdfast.data import ImageTable
from holdfast.data.sources import ArraySource
from holdfast.data.splits import thinned, with_validation, zero_shot
from holdfast.errors import RecipeError


def table(classes: int, per_class: int = 3, split: str = "train") -> ImageTable:
    n = classes * per_class
    return ImageTable.of(
        ArraySource(np.zeros((n, 2, 2), np.uint8)),
        classes=[str(i // per_class) for i in range(n)],
        splits=[split] * n,
        ids=[str(i) for i in range(n)],
        name="n",
    )


@given(st.integers(1, 60), st.floats(0, 1), st.integers(-5, 5))
def test_zero_shot_holds_out_whole_classes(classes: int, fraction: float, seed: int) -> None:
    names = [str(i // 3) for i in range(3 * classes)]
    splits = zero_shot(names, fraction, seed)
    train, test = ({n for n, s in zip(names, splits, strict=True) if s == split} for split in ("train", "test"))
    assert not train & test
    assert len(test) == round(fraction * classes)
    assert zero_shot(names, fraction, seed) == splits


def test_the_seed_matters() -> None:
    names = [str(i) for i in range(40)]
    assert zero_shot(names, 0.5, 0) != zero_shot(names, 0.5, 1)


@given(st.integers(1, 60), st.floats(0, 0.99), st.integers(0, 3))
def test_validation_is_class_disjoint_with_two_classes_at_least(classes: int, share: float, seed: int) -> None:
    t = with_validation(table(classes), share, seed)
    train, val = set(t.labels[t.splits == "train"]), set(t.labels[t.splits == "val"])
    assert not train & val
    wanted, most = max(2, round(share * classes)), classes - 4
    assert len(val) == (min(wanted, most) if share > 0 and most >= 2 else 0)
    assert len(train) + len(val) == classes


def test_a_given_validation_split_is_kept_and_test_images_never_move() -> None:
    given_splits = np.array((["train"] * 10 + ["val"] * 2) * 3)
    t = table(12).with_splits(given_splits)
    assert (with_validation(t, 0.5, 0).splits == given_splits).all()
    assert not with_validation(table(12, split="test"), 0.5, 0).has("val")


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.floats(0.01, 1), st.floats(0.01, 1), st.integers(0, 3))
def test_a_fraction_of_each_training_class(sizes: list[int], share: float, other: float, seed: int) -> None:
    labels = np.repeat(np.arange(len(sizes) + 1), [*sizes, 5])
    whole = ImageTable.of(
        ArraySource(np.zeros((len(labels), 2, 2), np.uint8)),
        classes=[str(label) for label in labels],
        splits=np.where(labels == len(sizes), "test", "train"),
        ids=[str(i) for i in range(len(labels))],
        name="n",
    )
    some = thinned(whole, share, seed)
    for label, size in enumerate(sizes):
        assert (some.labels == label).sum() == min(size, max(2, round(share * size)))
    assert some.split("test").ids == whole.split("test").ids
    assert some.ids == sorted(some.ids, key=int)
    smaller, larger = sorted((share, other))
    assert set(thinned(whole, smaller, seed).ids) <= set(thinned(whole, larger, seed).ids)


def test_the_fraction_is_drawn_by_its_seed_and_spares_validation() -> None:
    read = [data.load("glyphs", characters=60, train_fraction=0.5, fraction_seed=seed) for seed in (0, 0, 1)]
    assert read[0].ids == read[1].ids != read[2].ids
    assert read[0].split("val").ids == data.load("glyphs", characters=60).split("val").ids


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan")])
def test_a_fraction_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(RecipeError, match="train_fraction"):
        data.load("glyphs", train_fraction=share)
