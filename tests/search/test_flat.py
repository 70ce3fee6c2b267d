from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdfast.search.flat import BLOCK, TOGETHER, Flat
from index_cases import index_of, unit_vectors


def by_hand(vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int) -> NDArray[np.float64]:
    """Distances of the k nearest, nearest first, from the differences."""
    apart = np.linalg.norm(vectors.astype(np.float64) - queries.astype(np.float64)[:, None], axis=2)
    return np.sort(apart, 1)[:, :k]


def distances(vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int) -> NDArray[np.float64]:
    rows = Flat(vectors).search(queries, k)
    assert rows.shape == (len(queries), k)
    assert all(len(set(row)) == k for row in rows.tolist()), "no row twice"
    apart = np.linalg.norm(vectors[rows].astype(np.float64) - queries[:, None].astype(np.float64), axis=2)
    return np.sort(apart, 1)


@settings(max_examples=60, deadline=None)
@given(
    count=st.one_of(st.integers(1, 3 * BLOCK), st.just(BLOCK), st.just(10 * BLOCK + 1)),
    dim=st.integers(1, 20),
    asked=st.sampled_from([0, 1, 3, TOGETHER, 2 * TOGETHER + 1]),
    seed=st.integers(0, 99),
    few=st.booleans(),
)
def test_what_is_found_is_what_a_loop_finds(count: int, dim: int, asked: int, seed: int, few: bool) -> None:
    draw = np.random.default_rng(seed)
    vectors = draw.integers(-2, 3, (count, dim)).astype(np.float32) if few else unit_vectors(count, dim, seed)
    queries = draw.standard_normal((asked, dim)).astype(np.float32)
    k = int(draw.integers(1, count + 1))
    np.testing.assert_allclose(distances(vectors, queries, k), by_hand(vectors, queries, k), atol=1e-5)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_vectors_far_from_the_origin_are_told_apart(offset: float) -> None:
    vectors = (unit_vectors(500, 6) + np.float32(offset)).astype(np.float32)
    queries = vectors[:20] + np.float32(0.25)
    np.testing.assert_allclose(distances(vectors, queries, 5), by_hand(vectors, queries, 5), rtol=1e-6, atol=1e-6)


def test_one_huge_vector_does_not_blur_the_others() -> None:
    vectors = unit_vectors(300, 8)
    vectors[7] *= 1e12
    queries = unit_vectors(20, 8, seed=1)
    np.testing.assert_allclose(distances(vectors, queries, 5), by_hand(vectors, queries, 5), rtol=1e-5)


@pytest.mark.parametrize("apart", [1e-3, 1e-4, 1e-5])
def test_near_duplicates_among_others_are_told_apart(apart: float) -> None:
    alike = unit_vectors(1, 64) + np.float32(apart) * unit_vectors(300, 64, seed=1)
    vectors = np.concatenate([alike, unit_vectors(2000, 64, seed=2)])
    queries = np.concatenate([alike[:40], vectors[-40:]])
    np.testing.assert_allclose(distances(vectors, queries, 14), by_hand(vectors, queries, 14), rtol=1e-4, atol=1e-9)


def test_an_index_of_near_ties_returns_them_in_order() -> None:
    vectors = np.repeat(unit_vectors(1, 16), 400, 0)
    vectors[:, 0] += np.linspace(0, 2e-4, 400, dtype=np.float32)
    found = index_of(vectors).search(vectors[:1], 10)
    assert (np.diff(found.distances[0]) >= 0).all()
    np.testing.assert_allclose(found.distances, by_hand(vectors, vectors[:1], 10), atol=1e-6)
