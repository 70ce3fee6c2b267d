from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from holdfast.errors import DataError, SearchError
from holdfast.search import calibrate
from holdfast.search.verification import LEAST_ACCEPTED, VerificationPairs, pair_up, roc, threshold_at, thresholds
from index_cases import picture_table, pictures, small_model, unit_vectors


def labelled(count: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Vectors that lie around the centres of their classes."""
    labels = np.arange(count) % classes
    centres = unit_vectors(classes, 6, seed + 1)
    vectors = centres[labels] + 0.6 * unit_vectors(count, 6, seed)
    return torch.tensor(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)), torch.tensor(labels)


def by_hand(vectors: Tensor, labels: Tensor, groups: Tensor | None = None) -> tuple[list[float], list[float]]:
    same, different = [], []
    for a in range(len(vectors)):
        for b in range(a):
            apart = math.dist(vectors[a].double().tolist(), vectors[b].double().tolist())
            if labels[a] != labels[b]:
                different.append(apart)
            elif groups is None or groups[a] != groups[b]:
                same.append(apart)
    return same, different


@settings(max_examples=20, deadline=None)
@given(
    count=st.integers(12, 30), classes=st.integers(2, 6), far=st.sampled_from([0.3, 0.5, 0.83]), cameras=st.booleans()
)
def test_rates_are_those_of_a_loop(count: int, classes: int, far: float, cameras: bool) -> None:
    vectors, labels = labelled(count, classes)
    groups = torch.arange(count) // 7 if cameras else None
    same, different = by_hand(vectors, labels, groups)
    pairs = pair_up(vectors, labels, groups)
    np.testing.assert_allclose(pairs.positive, sorted(same), atol=1e-7)
    np.testing.assert_allclose(pairs.negative, sorted(different), atol=1e-7)
    (found,) = thresholds(pairs, [far])
    accepted = sum(d < found.threshold - 1e-9 for d in different)
    assert accepted == found.accepted
    assert accepted <= far * len(different) < accepted + 1, "the loosest threshold that keeps the rate"
    assert found.tar == pytest.approx(100 * sum(d < found.threshold - 1e-9 for d in same) / len(same))
    assert found.interval[0] <= found.interval[1]


def test_ties_never_break_the_promise() -> None:
    vectors = torch.eye(8)  # every pair at the same distance
    pairs = pair_up(vectors, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]))
    (found,) = thresholds(pairs, [0.5])
    assert found.accepted == 0


def test_a_rate_of_too_few_pairs_is_refused_with_the_smallest_there_is() -> None:
    pairs = pair_up(*labelled(40, 8))
    smallest = LEAST_ACCEPTED / len(pairs.negative)
    assert smallest <= pairs.smallest_far <= 1.1 * smallest
    thresholds(pairs, [smallest])
    with pytest.raises(DataError, match=f"smallest they allow is {pairs.smallest_far:.1e}"):
        thresholds(pairs, [smallest * 0.99])
    for wrong in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(DataError, match="between 0 and 1"):
            thresholds(pairs, [wrong])


@pytest.mark.parametrize("count", [*range(11, 40), 100, 300, 1000, 12345, 10**6, 7_998_000])
def test_the_smallest_rate_that_is_told_can_be_asked_for(count: int) -> None:
    none = np.empty(0, np.int64)
    pairs = VerificationPairs(np.empty(0), none, np.zeros(count), none, none)
    told = float(f"{pairs.smallest_far:.1e}")
    assert pairs.can_tell(told)
    assert not pairs.can_tell(told / 1.11)
    assert threshold_at(((pairs.smallest_far, 0.5),), told) == 0.5


def test_a_rate_is_known_by_its_first_digits() -> None:
    known = ((1e-3, 0.2), (1.0005e-3, 0.25), (10 / 30, 0.4))
    assert [threshold_at(known, far) for far in (0.001, 1.0004e-3, 0.333333, 0.3333, None)] == [
        0.2,
        0.25,
        0.4,
        0.4,
        0.2,
    ]
    for wrong in (0.33, 2e-3):
        with pytest.raises(SearchError, match="those known are"):
            threshold_at(known, wrong)
    with pytest.raises(SearchError, match="holdfast calibrate"):
        threshold_at((), 0.1)


def test_the_interval_holds_what_other_classes_give() -> None:
    """Coverage: intervals of one draw of classes hold the rate over very many classes nine times in ten or so."""
    truth = thresholds(pair_up(*labelled(1200, 300, seed=5)), [0.05])[0].tar
    held = 0
    for seed in range(20):
        low, high = thresholds(pair_up(*labelled(160, 40, seed=10 + seed)), [0.05], seed)[0].interval
        assert low < high
        held += low <= truth <= high
    assert held >= 15


def test_the_interval_is_that_of_a_plain_bootstrap() -> None:
    """Weights against really repeating the classes' pairs."""
    from holdfast import seeds
    from holdfast.search.verification import RESAMPLES

    pairs = pair_up(*labelled(36, 9))
    draw, far, found = np.random.default_rng(seeds.derive(3, "bootstrap")), 0.1, []
    for _ in range(RESAMPLES):
        chosen = draw.integers(9, size=9).tolist()
        negative, positive = [], []
        for a in range(9):
            positive += [d for d, c in zip(pairs.positive, pairs.positive_class, strict=True) if c == chosen[a]]
            for b in range(a):
                wanted = {chosen[a], chosen[b]}
                negative += [
                    d for d, c in zip(pairs.negative, pairs.negative_classes.tolist(), strict=True) if set(c) == wanted
                ]
        negative.sort()
        at = negative[math.floor(far * len(negative) + 1e-9)]
        found.append(100 * np.mean(np.array(positive) < at))
    low, high = thresholds(pairs, [far], seed=3)[0].interval
    assert (low, high) == pytest.approx(tuple(np.quantile(found, [0.025, 0.975])))


def test_the_curve_rises_to_all() -> None:
    pairs = pair_up(*labelled(60, 10))
    curve = roc(pairs)
    for name in ("threshold", "FAR", "TAR"):
        assert (np.diff(curve[name]) >= 0).all()
    assert (curve["FAR"][-1], curve["TAR"][-1]) == (100, 100)
    at = curve["threshold"][40]
    assert curve["TAR"][40] == pytest.approx(100 * np.mean(pairs.positive < at))
    assert curve["FAR"][40] == pytest.approx(100 * np.mean(pairs.negative < at))


def test_one_class_or_no_pair_is_refused() -> None:
    cases = (([0] * 6, "add classes"), ([0, 1, 2, 3, 4, 5], "add images"), ([0, 0, 0, 0, 0, 1], "add classes"))
    for labels, advice in cases:
        with pytest.raises(DataError, match=f"pairs of images of one class.*{advice}"):
            pair_up(torch.eye(6), torch.tensor(labels))


def test_a_document_without_rates_asked_takes_those_the_pairs_can_tell() -> None:
    found = calibrate(small_model(), picture_table(pictures(40)))
    assert [t["far"] for t in found["thresholds"]] == [found["smallest_far"]]
    assert found["pairs"] == {"positive": 5 * 28, "negative": 40 * 39 // 2 - 5 * 28}
    assert isinstance(pair_up(*labelled(12, 3)), VerificationPairs)
