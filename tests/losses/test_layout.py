"""Where the positive and negative pairs of a batch are, against its n × n masks, however they are found."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from holdfast.errors import DataError
from holdfast.losses import layout
from holdfast.losses.layout import masks_of, sides_by_labels, sides_by_tuples
from holdfast.losses.sides import ABSENT, Listed, Masked, Side, Sides
from holdfast.mining import Pairs, Triplets
from holdfast.sphere import pair_masks

LABELS = st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 3), min_size=1, max_size=12)
"""Some repeat, some are far beyond what a float can tell apart."""


def matrix_of(size: int) -> Tensor:
    """No two entries alike, so that each is known by its value."""
    return torch.arange(1.0, size * size + 1, dtype=torch.float64).view(size, size)


def held(side: Side) -> list[list[float]]:
    """The values of a side that are pairs, row by row; the others must be absent."""
    assert (side.values[side.mask == 0].abs() == ABSENT).all()
    pairs = zip(side.values.tolist(), side.mask.tolist(), strict=True)
    return [sorted(value for value, one in zip(*row, strict=True) if one) for row in pairs]


def assert_holds(sides: Sides, positive: Tensor, negative: Tensor, rows: slice) -> None:
    matrix = matrix_of(len(positive))
    for side, mask in zip(sides.take(matrix[rows].clone(), rows), (positive, negative), strict=True):
        expected = [row[chosen].tolist() for row, chosen in zip(matrix[rows], mask[rows], strict=True)]
        assert held(side) == expected


@settings(max_examples=60, deadline=None)
@given(labels=LABELS, start=st.integers(0, 11), few=st.sampled_from([0.0, 0.25, 1.0]))
@pytest.mark.parametrize("relevance", [False, True])
def test_labels(labels: list[int], start: int, few: float, relevance: bool) -> None:
    names = torch.tensor(labels)
    given_labels = names[:, None] == names[None, :] if relevance else names
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "FEW", few)
        sides = sides_by_labels(torch.zeros(len(names), 2), given_labels, distances=False)
    assert isinstance(sides.near, {0.0: Masked, 0.25: Masked | Listed, 1.0: Listed}[few])
    assert_holds(sides, *pair_masks(names), slice(min(start, len(names) - 1), len(names)))


@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 9), seed=st.integers(0, 1000), few=st.sampled_from([0.0, 0.25, 1.0]))
def test_relations_that_are_no_classes(size: int, seed: int, few: float) -> None:
    """Neither transitive, nor symmetric, nor with every image related to itself."""
    relevance = torch.rand(size, size, generator=torch.Generator().manual_seed(seed)) > 0.6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "FEW", few)
        sides = sides_by_labels(torch.zeros(size, 2), relevance, distances=False)
    assert_holds(sides, *pair_masks(relevance), slice(0, size))


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 8), number=st.integers(0, 20), seed=st.integers(0, 1000), few=st.sampled_from([0.0, 0.5, 1.0])
)
@pytest.mark.parametrize("kind", [Triplets, Pairs])
def test_tuples(kind: type[Triplets | Pairs], size: int, number: int, seed: int, few: float) -> None:
    """In any order, with repetitions, with images paired with themselves as one published miner does, or none."""
    generator = torch.Generator().manual_seed(seed)
    one, two, three = torch.randint(size, (3, number), generator=generator)
    # A pair is of one kind only.
    tuples = Triplets(one, two, three) if kind is Triplets else Pairs(one, two, (one + two) % 2 == 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "FEW", few)
        sides = sides_by_tuples(torch.zeros(size, 2), tuples, distances=True)
    positive = torch.zeros(size, size, dtype=torch.bool)
    negative = torch.zeros_like(positive)
    for i, (a, b) in enumerate(zip(one.tolist(), two.tolist(), strict=True)):
        if isinstance(tuples, Triplets):
            positive[a, b] = negative[a, int(three[i])] = True
        else:
            (positive if tuples.same[i] else negative)[a, b] = True
    assert_holds(sides, positive, negative, slice(0, size))
    for found, expected in zip(masks_of(tuples, size), (positive, negative), strict=True):
        assert torch.equal(found, expected)


def test_absent_positives_are_near_and_absent_negatives_far() -> None:
    labels = torch.tensor([0, 0, 1, 2])
    for few in (0.0, 1.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(layout, "FEW", few)
            for distances, sign in ((False, 1), (True, -1)):
                sides = sides_by_labels(torch.zeros(4, 2), labels, distances)
                near, far = sides.take(torch.zeros(4, 4), slice(0, 4))
                assert set(near.values.flatten().tolist()) == {0, sign * ABSENT}
                assert set(far.values.flatten().tolist()) == {0, -sign * ABSENT}


def test_numbers_of_the_other_image() -> None:
    labels = torch.tensor([0, 1, 0, 1, 2, 3, 4, 5])
    sides = sides_by_labels(torch.zeros(8, 2), labels, distances=False)
    near, far = sides.take(torch.arange(8.0).repeat(8, 1), slice(0, 8))
    for side in (near, far):
        found = side.at_others(torch.arange(8.0)).expand_as(side.values)
        assert torch.equal(found[side.mask.bool()], side.values[side.mask.bool()])


@pytest.mark.parametrize("labels", [torch.zeros(3, dtype=torch.long), torch.zeros(4, 4, dtype=torch.long)])
def test_labels_that_do_not_fit(labels: Tensor) -> None:
    with pytest.raises(DataError):
        sides_by_labels(torch.zeros(4, 2), labels, distances=False)
