from __future__ import annotations

import math
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.nn.functional import normalize

from holdfast.errors import DataError
from holdfast.metrics import geometry
from holdfast.metrics.geometry import random_pairs


def sample(count: int, dim: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=generator)
    centres = torch.randn(classes, dim, generator=generator)
    return normalize(centres[labels] + torch.randn(count, dim, generator=generator), dim=1), labels


def by_loops(vectors: Tensor, labels: Tensor) -> dict[str, float | None]:
    rows, classes = [v.tolist() for v in vectors.double()], labels.tolist()

    def mean(values: list[float]) -> float | None:
        return sum(values) / len(values) if values else None

    def dot(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows)) if i != j]
    d = {(i, j): math.dist(rows[i], rows[j]) for i, j in pairs}
    names = sorted(set(classes))
    members = {c: [i for i, label in enumerate(classes) if label == c] for c in names}
    within = [[1 - dot(rows[i], rows[j]) for i in m for j in m if i != j] for m in members.values()]
    intra = mean([sum(w) / len(w) for w in within if w])
    centres = []
    for c in names:
        centre = [sum(rows[i][k] for i in members[c]) for k in range(len(rows[0]))]
        centres.append([x / math.sqrt(dot(centre, centre)) for x in centre])
    inter = mean([1 - dot(a, b) for i, a in enumerate(centres) for j, b in enumerate(centres) if i != j])
    return {
        "pi_intra": intra,
        "pi_inter": inter,
        "pi_ratio": intra / inter if intra is not None and inter is not None else None,
        "distance_positive": mean([d[i, j] for i, j in pairs if classes[i] == classes[j]]),
        "distance_negative": mean([d[i, j] for i, j in pairs if classes[i] != classes[j]]),
        "distance_all": mean(list(d.values())),
        "energy_0": mean([-math.log(x) for x in d.values()]),
        "energy_1": mean([1 / x for x in d.values()]),
        "gaussian_energy": mean([math.exp(-x * x) for x in d.values()]),
    }


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 14), classes=st.integers(1, 5), seed=st.integers(0, 1000))
def test_equals_loops(count: int, classes: int, seed: int) -> None:
    vectors, labels = sample(count, 5, classes, seed)
    values = geometry(vectors, labels)
    for key, expected in by_loops(vectors, labels).items():
        assert values[key] == (None if expected is None else pytest.approx(expected, rel=1e-5)), key
    assert set(values.reasons) == {key for key, value in values.items() if value is None}


def test_effective_rank_equals_a_decomposition_of_all_vectors() -> None:
    vectors, labels = sample(60, 12, 6)
    singular = torch.linalg.svdvals(vectors)
    fractions = singular / singular.sum()
    expected = torch.exp(-(fractions * fractions.log()).sum())
    assert geometry(vectors, labels)["effective_rank"] == pytest.approx(expected.item(), rel=1e-4)


def test_random_pairs_estimate_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, labels = sample(400, 16, 10)
    exact = geometry(vectors, labels)
    monkeypatch.setattr(sys.modules["holdfast.metrics.geometry"], "EXACT", 100)
    sampled = geometry(vectors, labels, pairs=100_000, seed=3)
    assert sampled != exact
    assert sampled == geometry(vectors, labels, pairs=100_000, seed=3)
    for key, value in exact.items():
        assert sampled[key] == pytest.approx(value, rel=1e-2), key


def test_random_pairs_are_uniform_and_never_of_one_vector() -> None:
    labels = torch.tensor([0, 1, 0, 2, 1, 0])
    positions = torch.tensor([[0.0], [1.0], [10.0], [100.0], [1000.0], [10000.0]])
    draws = random_pairs(positions, labels, 40_000, Generator().manual_seed(0), within=labels)
    squared, same = (torch.cat(parts) for parts in zip(*draws, strict=True))
    assert same.all()
    distances, counts = squared.sqrt().round().unique(return_counts=True)
    assert distances.tolist() == [10, 999, 9990, 10000]
    assert (counts / 40_000).tolist() == pytest.approx([0.25] * 4, abs=0.02)


def test_no_positive_pair_beyond_the_exact_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["holdfast.metrics.geometry"], "EXACT", 2)
    values = geometry(torch.eye(5), torch.arange(5), pairs=10)
    assert values["distance_positive"] is None
    assert values["distance_all"] == pytest.approx(math.sqrt(2))
    assert values["gaussian_energy"] == pytest.approx(0.1353, abs=1e-4)


@pytest.mark.parametrize(
    ("vectors", "rank"),
    [
        (torch.eye(7), 7.0),
        (torch.ones(5, 4), 1.0),
        (torch.diag(torch.tensor([3.0, 1.0])), math.exp(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))),
    ],
)
def test_effective_rank_of_known_matrices(vectors: Tensor, rank: float) -> None:
    assert geometry(vectors, torch.zeros(len(vectors), dtype=torch.int64))["effective_rank"] == pytest.approx(
        rank, rel=1e-4
    )


def test_collapse_is_seen() -> None:
    generator = Generator().manual_seed(0)
    labels = torch.arange(200) % 10
    healthy = normalize(torch.randn(200, 32, generator=generator), dim=1)
    point = normalize(torch.ones(1, 32) + 0.02 * torch.randn(200, 32, generator=generator), dim=1)
    poles = normalize(torch.ones(1, 32) * (2.0 * (labels[:, None] % 2) - 1), dim=1)
    assert geometry(healthy, labels)["collapsed"] is False
    assert geometry(7 * healthy, labels)["collapsed"] is False
    assert geometry(point, labels)["collapsed"] is True  # vectors crowd around a point
    assert geometry(9 * point, labels)["collapsed"] is True
    assert geometry(poles, labels)["collapsed"] is True  # far apart, but on a line


def test_coinciding_vectors_have_large_but_finite_energy() -> None:
    values = geometry(torch.ones(4, 3) / math.sqrt(3), torch.tensor([0, 0, 1, 1]))
    assert values["energy_1"] == pytest.approx(1e6)
    assert values["energy_0"] == pytest.approx(math.log(1e6))
    assert values["pi_ratio"] is None
    assert "coincide" in values.reasons["pi_ratio"]
    assert values["collapsed"] is True


def test_energies_are_for_unit_vectors_only() -> None:
    vectors, labels = sample(30, 6, 3)
    longer = geometry(2 * vectors, labels)
    plain = geometry(vectors, labels)
    assert longer["energy_0"] is None
    assert "unit" in longer.reasons["energy_0"]
    assert longer["distance_all"] == pytest.approx(2 * plain["distance_all"], rel=1e-5)  # type: ignore[operator]
    assert longer["pi_ratio"] == pytest.approx(plain["pi_ratio"], rel=1e-5)
    half = geometry(vectors.bfloat16(), labels)
    assert half["energy_0"] == pytest.approx(plain["energy_0"], rel=2e-2)


def test_some_pairs_are_needed() -> None:
    with pytest.raises(DataError, match="pairs"):
        geometry(torch.eye(3), torch.arange(3), pairs=0)
