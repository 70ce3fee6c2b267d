from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_cases import index_of, unit_vectors
from numpy.typing import NDArray

from holdfast.errors import SearchError
from holdfast.search.kinds import KINDS, MANY, kind_for
from holdfast.search.kinds.ivf import cell_count

DIM = 16


def brute_force(vectors: NDArray[np.float32], query: NDArray[np.float32], k: int) -> list[int]:
    apart = [float(np.sqrt(((v.astype(np.float64) - query.astype(np.float64)) ** 2).sum())) for v in vectors]
    return sorted(range(len(vectors)), key=lambda row: (apart[row], row))[:k]


def recall(kind: str, vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int = 10) -> float:
    exact, found = (index_of(vectors, one).search(queries, k).rows for one in ("flat", kind))
    return float(np.mean([len(set(a) & set(b)) / k for a, b in zip(exact.tolist(), found.tolist(), strict=True)]))


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 60), dim=st.integers(1, 20), k=st.integers(1, 12), seed=st.integers(0, 99))
def test_flat_is_brute_force(count: int, dim: int, k: int, seed: int) -> None:
    vectors, queries = unit_vectors(count, dim + 1, seed), unit_vectors(4, dim + 1, seed + 1)
    found = index_of(vectors, "flat").search(queries, k)
    for query, rows, distances in zip(queries, found.rows, found.distances, strict=True):
        assert rows.tolist() == brute_force(vectors, query, k)
        np.testing.assert_allclose(distances, np.linalg.norm(vectors[rows] - query, axis=1), rtol=1e-5)


@pytest.mark.parametrize(("kind", "least"), [("ivf", 0.9), ("hnsw", 0.97)])
def test_a_quick_kind_finds_most_of_what_flat_finds(kind: str, least: float) -> None:
    vectors = unit_vectors(4000, DIM, clusters=100)
    assert recall(kind, vectors, unit_vectors(100, DIM, 1, clusters=100)) >= least


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_restored_structure_answers_alike(kind: str) -> None:
    vectors, queries = unit_vectors(600, DIM), unit_vectors(40, DIM, 1)
    first = KINDS[kind].build(vectors, 0)
    again = KINDS[kind].restore(vectors, first.arrays())
    np.testing.assert_array_equal(first.search(queries, 9), again.search(queries, 9))
    assert first.arrays().keys() == again.arrays().keys()
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("gone", [0, 25])
def test_a_grown_structure_is_over_the_new_vectors(kind: str, gone: int) -> None:
    old, added = unit_vectors(400, DIM), unit_vectors(60, DIM, 1)
    kept = np.arange(gone, 400)
    vectors = np.concatenate([old[kept], added])
    grown = KINDS[kind].build(old, 0).grown(vectors, kept, 0)
    # Every vector finds itself, which an index that missed or misplaced it could not.
    assert np.mean(grown.search(vectors, 1)[:, 0] == np.arange(len(vectors))) >= 0.99
    np.testing.assert_array_equal(KINDS[kind].restore(vectors, grown.arrays()).search(added, 5), grown.search(added, 5))


def test_cells_are_learned_anew_when_an_index_has_outgrown_them() -> None:
    vectors = unit_vectors(2000, DIM)
    grown = KINDS["ivf"].build(vectors[:100], 0).grown(vectors, np.arange(100), 0)
    assert len(grown.arrays()["centroids"]) == cell_count(2000) > cell_count(100)


def test_kinds_are_chosen_by_number_or_by_name() -> None:
    assert kind_for(MANY) is KINDS["flat"]
    assert kind_for(MANY + 1) is KINDS["ivf"]
    assert kind_for(10, "hnsw") is KINDS["hnsw"]
    with pytest.raises(SearchError, match="did you mean 'hnsw'"):
        kind_for(10, "hnws")


def test_more_neighbours_than_images_are_all_images() -> None:
    vectors = unit_vectors(5, DIM)
    for kind in KINDS:
        assert sorted(index_of(vectors, kind).search(vectors[:1], 50).rows[0].tolist()) == [0, 1, 2, 3, 4]


def test_a_query_of_other_dims_is_refused() -> None:
    with pytest.raises(SearchError, match="16 dims"):
        index_of(unit_vectors(5, DIM)).search(unit_vectors(1, 3))
    with pytest.raises(SearchError, match="1 or more"):
        index_of(unit_vectors(5, DIM)).search(unit_vectors(1, DIM), 0)


def test_copies_of_a_query_are_skipped() -> None:
    index = index_of(unit_vectors(50, DIM))
    plain, others = (index.search(index.vectors, 3, without=w).rows for w in (None, index.fingerprints))
    np.testing.assert_array_equal(plain[:, 0], np.arange(50))
    np.testing.assert_array_equal(plain[:, 1:], others[:, :2])


def changed(arrays: dict[str, NDArray[Any]], name: str, place: int, value: int) -> dict[str, NDArray[Any]]:
    arrays = {key: array.copy() for key, array in arrays.items()}
    arrays[name][place] = value
    return arrays


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("ivf", "cells", -1),
        ("ivf", "cells", 10**9),
        ("ivf", "centroids", np.nan),
        ("hnsw", "links", 10**6),
        ("hnsw", "links", -2),
        ("hnsw", "levels", 0),
        ("hnsw", "levels", 7),
        ("hnsw", "levels", 2**31 - 1),
        ("hnsw", "entry", -1),
        ("hnsw", "entry", 10**12),
    ],
)
def test_arrays_out_of_bounds_are_refused(kind: str, name: str, value: float) -> None:
    vectors = unit_vectors(300, DIM)
    arrays = changed(KINDS[kind].build(vectors, 0).arrays(), name, 0, value)  # type: ignore[arg-type]
    with pytest.raises(SearchError, match="damaged"):
        KINDS[kind].restore(vectors, arrays)


def test_a_link_from_a_high_layer_to_a_vector_of_a_low_one_is_refused() -> None:
    vectors = unit_vectors(300, DIM)
    arrays = KINDS["hnsw"].build(vectors, 0).arrays()
    levels, low = arrays["levels"], int(np.flatnonzero(arrays["levels"] == 1)[-1])
    high = int(np.flatnonzero(levels == 2)[0])
    widths = {1: 64, 2: 96, 3: 128}
    start = sum(widths[int(level)] for level in levels[:high])
    with pytest.raises(SearchError, match="across layers"):
        KINDS["hnsw"].restore(vectors, changed(arrays, "links", start + 64, low))


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_missing_short_and_mistyped_arrays_are_refused(kind: str) -> None:
    vectors = unit_vectors(300, DIM)
    arrays = KINDS[kind].build(vectors, 0).arrays()
    for name, array in arrays.items():
        for wrong in (None, array[: len(array) // 2], array.astype(np.float64), array[None]):
            with pytest.raises(SearchError, match="damaged"):
                KINDS[kind].restore(vectors, {**arrays, name: wrong} if wrong is not None else {})
