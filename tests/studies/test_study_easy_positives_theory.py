"""Study E6: expected losses against every possible labelling, counted one by one."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from figures_of import asked, made_up
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import RecipeError
from holdfast_studies import base
from holdfast_studies.claims import Beyond
from holdfast_studies.jobs import SCALES, Probe, Scale
from holdfast_studies.measures import noisy_labels
from holdfast_studies.measures.noisy_labels import LOSSES, Boundary, Floats, NoisyLabels, label_chances
from holdfast_studies.probes import ProbeResult, Scene

NOWHERE = Scene(seed=0, device=torch.device("cpu"))


def expectation(chances: Floats, cost: Callable[[tuple[int, ...]], float]) -> float:
    """The mean of a cost over all labellings, each with its probability."""
    points, classes = chances.shape
    total = 0.0
    for labels in itertools.product(range(classes), repeat=points):
        total += float(np.prod([chances[i, y] for i, y in enumerate(labels)])) * cost(labels)
    return total


def easiest(distance: Floats, labels: tuple[int, ...], i: int) -> int | None:
    """The nearest other point with the same label."""
    same = [j for j in range(len(labels)) if j != i and labels[j] == labels[i]]
    return min(same, key=lambda j: distance[i, j]) if same else None


def triplets(distance: Floats, labels: tuple[int, ...], alpha: float, easy: bool) -> float:
    total, n = 0.0, len(labels)
    for i, j, k in itertools.permutations(range(n), 3):
        if labels[i] == labels[j] != labels[k] and (not easy or j == easiest(distance, labels, i)):
            total += max(distance[i, j] - distance[i, k] + alpha, 0)
    return total / n


def pairs(distance: Floats, labels: tuple[int, ...], alpha: float, easy: bool, anchor: int, beta: float) -> float:
    total = 0.0
    for j in range(len(labels)):
        if j == anchor:
            continue
        if labels[j] != labels[anchor]:
            total += max(beta - distance[anchor, j] + alpha, 0)
        elif not easy or j == easiest(distance, labels, anchor):
            total += max(distance[anchor, j] - beta + alpha, 0)
    return total


@st.composite
def embeddings(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """Distances of five points on a line, ties among them, and chances of two or three labels."""
    places = np.array(draw(st.lists(st.sampled_from((0.0, 0.5, 1.0, 1.75)), min_size=5, max_size=5)))
    classes = draw(st.integers(2, 3))
    truth = np.array(draw(st.lists(st.integers(0, classes - 1), min_size=5, max_size=5)))
    chances = label_chances(truth, classes, draw(st.sampled_from((0.55, 0.8, 0.95))))
    return np.abs(places[:, None] - places[None]), chances


@settings(max_examples=15, deadline=None)
@given(embeddings())
def test_triplets_against_all_labellings(drawn: tuple[Floats, Floats]) -> None:
    distance, chances = drawn
    every = expectation(chances, lambda labels: triplets(distance, labels, 0.7, easy=False))
    easy = expectation(chances, lambda labels: triplets(distance, labels, 0.7, easy=True))
    assert noisy_labels.triplet_loss(distance, chances, 0.7) == pytest.approx(every, abs=1e-12)
    assert noisy_labels.easy_triplet_loss(distance, chances, 0.7) == pytest.approx(easy, abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(embeddings(), st.booleans())
def test_margin_against_all_labellings(drawn: tuple[Floats, Floats], easy: bool) -> None:
    distance, chances = drawn
    counted = np.mean(
        [
            expectation(chances, lambda labels, i=i: pairs(distance, labels, 0.7, easy, i, 0.7))
            for i in range(len(distance))
        ]
    )
    assert noisy_labels.margin_loss(distance, chances, 0.7, easy=easy) == pytest.approx(counted, abs=1e-12)


@pytest.mark.parametrize("boundary", ["positive", "any"])
@pytest.mark.parametrize("easy", [False, True])
def test_the_best_boundary_is_found(boundary: Boundary, easy: bool) -> None:
    distance = np.abs(np.subtract.outer((0.0, 0.0, 0.4, 1.0), (0.0, 0.0, 0.4, 1.0)))
    chances = label_chances(np.array([0, 0, 0, 1]), 2, 0.7)
    scanned = np.arange(0 if boundary == "positive" else -200, 301) / 100  # holds every kink
    best = [
        min(expectation(chances, lambda labels, i=i, b=b: pairs(distance, labels, 1.0, easy, i, b)) for b in scanned)
        for i in range(4)
    ]
    found = noisy_labels.margin_loss(distance, chances, 1.0, boundary, easy=easy)
    assert found == pytest.approx(np.mean(best), abs=1e-12)


@pytest.mark.parametrize(("classes", "p"), [(2, 0.8), (4, 0.6), (3, 0.5)])
def test_two_modes_cost_a_triplet_loss_what_the_algebra_says(classes: int, p: float) -> None:
    """Only triplets of an anchor, its other mode and another class differ: each such pair by α (p - q)²."""
    n = 4 * classes
    noise = NoisyLabels(classes=classes, p=p, points=(n,))
    place = np.repeat(np.arange(classes), 4)
    chances = label_chances(place, classes, p)
    collapsed = noisy_labels.triplet_loss((place[:, None] != place[None]).astype(float), chances, 1.0)
    q = (1 - p) / (classes - 1)
    more = 4 * 2 * (n - 4) * (p - q) ** 2 / n
    assert noise.gap("triplet", LOSSES["triplet"], n) == pytest.approx(100 * more / collapsed)


def test_noise_out_of_range_is_refused() -> None:
    with pytest.raises(RecipeError, match="between 1/4 and 1"):
        NoisyLabels(classes=4, p=0.2, points=(8,))
    with pytest.raises(RecipeError, match="multiples of 4"):
        NoisyLabels(classes=4, p=0.6, points=(10,))


@functools.cache
def computed(probe: NoisyLabels) -> ProbeResult:
    """Once for all tests: nothing in it is random."""
    return probe(NOWHERE)


@pytest.mark.parametrize("scale", SCALES)
def test_what_is_named_is_computed_and_decides(scale: Scale) -> None:
    study = base.get("E6")
    known: dict[str, set[str]] = {}
    for arm in study.arms(scale):
        measure = arm.job.measures[0]
        assert isinstance(measure, Probe)
        found = computed(NoisyLabels(**{**measure.arguments, "points": (8, 12, 48)}))
        assert {8, 12, 48} <= set(measure.arguments["points"])
        known[arm.name] = {f"noise/{key}" for key in (*found.figures, *found.series)}
    for claim in study.claims(scale):
        assert isinstance(claim, Beyond)
        assert claim.figure in known[claim.arm]
        high, low = (claim.verdict(made_up({claim.arm: {claim.figure: value}})).status for value in (2.0, -2.0))
        assert {high, low} == {"holds", "does not hold"}
    shared = set.intersection(*known.values())
    assert set(study.columns(scale).values()) <= shared
    for drawing in study.plan(scale).drawings:
        arms, series = asked(drawing)
        assert arms == set(known)
        assert series <= shared
    assert study.notes(scale)


def test_the_theorems_in_their_own_setting() -> None:
    """Two classes, p 0.8: decided as the paper proves, and the other way round with too few points."""
    figures = computed(NoisyLabels(classes=2, p=0.8, points=(8, 12, 48), search=True)).figures
    for loss in ("triplet", "margin"):
        assert (figures[f"{loss}, least"] or 0) > 0
        assert figures[f"{loss}, collapsed is best"] == 1
    for loss in ("EPS triplet", "EPS margin"):
        assert (figures[f"{loss}, most"] or 0) < 0
        assert figures[f"{loss}, collapsed is best"] == 0
    assert (figures["EPS triplet at 8"] or 0) > 0
