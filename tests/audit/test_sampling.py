from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.audit.sampling import balanced_rows, few_classes, mean_interval


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 70), st.integers(0, 3))
def test_a_limited_sample_is_balanced_and_seeded(labels: list[int], limit: int, seed: int) -> None:
    column = torch.tensor(labels)
    rows = balanced_rows(column, limit, seed)
    assert len(rows) == min(limit, len(labels))
    assert torch.equal(rows, rows.sort().values)
    assert len(set(rows.tolist())) == len(rows)
    assert torch.equal(rows, balanced_rows(column, limit, seed))
    taken, there = column[rows].bincount(minlength=5), column.bincount(minlength=5)
    for a in range(5):
        for b in range(5):
            assert taken[a] <= taken[b] + 1 or taken[b] == there[b]


def test_few_classes_have_something_to_find() -> None:
    labels = torch.arange(500) % 50
    rows = few_classes(labels, 7, 3, seed=1)
    assert labels[rows].bincount().unique().tolist() == [0, 3]
    assert len(rows) == 21


def test_intervals_cover_the_mean_about_as_often_as_promised() -> None:
    generator = torch.Generator().manual_seed(0)
    inside = 0
    for trial in range(100):
        low, high = mean_interval(torch.randn(60, generator=generator), trial)
        inside += low <= 0 <= high
    assert 88 <= inside <= 99
