from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from holdfast.data import load
from holdfast.view import View


def test_digits_are_split_by_digit_with_odd_and_even() -> None:
    table = load("digits")
    target = load_digits().target
    assert [int(table.class_names[label]) for label in table.labels] == target.tolist()
    assert {int(table.class_names[label]) for label in table.split("train").labels} == set(range(6))
    assert {int(table.class_names[label]) for label in table.split("test").labels} == {6, 7, 8, 9}
    assert not table.has("val")
    assert table.coarse is not None
    assert table.coarse_names is not None
    assert [table.coarse_names[c] for c in table.coarse] == [("even", "odd")[t % 2] for t in target]


def test_pictures_are_the_scans_enlarged() -> None:
    scans = load_digits().images
    exact = np.stack(load("digits", size=8).read(np.arange(5), View(8)).arrays())[..., 0].astype(float)
    assert np.abs(exact - scans[:5] * 255 / 16).max() <= 0.5
    large = np.stack(load("digits").read(np.arange(5), View(32)).arrays())[..., 0]
    blocks = large.reshape(5, 8, 4, 8, 4).mean((2, 4))
    assert np.corrcoef(blocks.ravel(), scans[:5].ravel())[0, 1] > 0.95


def test_validation_takes_two_of_the_six_when_asked() -> None:
    table = load("digits", validation=0.1)
    assert len(set(table.split("val").labels)) == 2
    assert len(set(table.split("train").labels)) == 4
