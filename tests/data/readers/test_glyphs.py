from __future__ import annotations

import numpy as np
import pytest
import torch

from holdfast.data import ImageTable, centre_crop, load
from holdfast.data.readers import glyphs
from holdfast.errors import HoldfastError
from holdfast.view import View


@pytest.fixture(scope="module")
def table() -> ImageTable:
    return load("glyphs")


def test_counts_and_splits(table: ImageTable) -> None:
    assert len(table) == 6260
    assert len(table.class_names) == 626
    assert table.source.image(0).shape == (32, 32, 3)
    assert (np.bincount(table.labels) == 10).all()
    learnt = np.isin(table.splits, ("train", "val"))
    assert not set(table.labels[learnt]) & set(table.labels[~learnt])
    assert abs(len(set(table.labels[~learnt])) - 313) <= len(table.coarse_names or [])
    assert len(set(table.ids)) == len(table)


def test_both_halves_hold_every_script(table: ImageTable) -> None:
    assert table.coarse is not None
    assert table.coarse_names is not None
    assert len(table.coarse_names) == 15
    assert {"latin", "greek", "hebrew", "arabic"} <= set(table.coarse_names)
    learnt = np.isin(table.splits, ("train", "val"))
    assert set(table.coarse[learnt]) == set(table.coarse[~learnt]) == set(range(15))
    scripts = np.unique(np.stack((table.labels, table.coarse)), axis=1)
    assert scripts.shape[1] == 626  # one script per character


def test_drawing_is_a_function_of_the_fields() -> None:
    first = load("glyphs", characters=30, per_class=3, size=24)
    glyphs._draw_all.cache_clear()
    again = load("glyphs", characters=30, per_class=3, size=24)
    other = load("glyphs", characters=30, per_class=3, size=24, seed=1)
    rows = np.arange(90)
    assert torch.equal(first.read(rows, View(24)).pixels, again.read(rows, View(24)).pixels)
    assert first.ids == again.ids
    assert first.ids != other.ids


def test_look_alikes_are_one_class() -> None:
    known = set(glyphs._distinct_characters())
    for same in ("AΑА", "oOοОо", "EΕЕ", "xXхХ", "cCсС"):
        assert len(known & set(same)) <= 1
    assert len(known & set("AKRabgmf")) >= 7


def test_images_of_a_character_differ_but_belong_together(table: ImageTable) -> None:
    images = centre_crop(table.read(np.arange(0, 3000), View(32)), View(32))[:, 0].flatten(1) * 255
    ink = images - images.mean(1, keepdim=True)
    ink = ink / ink.norm(dim=1, keepdim=True)
    similarity = (ink @ ink.T).abs()  # light on dark or dark on light
    similarity.fill_diagonal_(0)
    labels = table.labels[:3000]
    hits = (labels[similarity.argmax(1).numpy()] == labels).mean()
    assert 0.2 < hits < 0.7  # neither noise nor trivial
    assert similarity.max() < 0.99


@pytest.mark.parametrize("fields", [{"characters": 10**6}, {"characters": 1}, {"size": 2}, {"per_class": 0}])
def test_impossible_fields_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(HoldfastError, match="glyphs"):
        load("glyphs", **fields)
