from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdfast.errors import SearchError
from holdfast.search.index import KINDS, MANY, Structure, cell_count, kind_for
from index_cases import index_of, unit_vectors

DIM = 16


def brute_force(vectors: NDArray[np.float32], query: NDArray[np.float32], k: int) -> list[int]:
    apart = [float(np.sqrt(((v.astype(np.float64) - query.astype(np.float64)) ** 2).sum())) for v in vectors]
    return sorted(range(len(vectors)), key=lambda row: (apart[row], row))[:k]


def recall(kind: str, vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int = 10) -> float:
    quick = index_of(vectors, kind)
    quick.structure.prepare()
    exact, found = (index.search(queries, k).rows for index in (index_of(vectors, "flat"), quick))
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


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_queries_are_answered_exactly_until_building_pays(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, kind, (KINDS[kind][0], 40))
    vectors, queries = unit_vectors(600, DIM), unit_vectors(40, DIM, 1)
    structure = Structure(vectors, kind, 0)
    np.testing.assert_array_equal(structure.search(queries, 9), Structure(vectors, "flat", 0).search(queries, 9))
    prepared = Structure(vectors, kind, 0)
    prepared.prepare()
    np.testing.assert_array_equal(structure.search(queries[:1], 9), prepared.search(queries[:1], 9))
    assert type(structure._faiss) is type(prepared._faiss) is not type(Structure(vectors, "flat", 0)._faiss)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("gone", [0, 25])
def test_an_extended_index_is_over_the_new_vectors(kind: str, gone: int) -> None:
    old, added = index_of(unit_vectors(400, DIM), kind), unit_vectors(60, DIM, 1)
    names = [*(f"v{i}" for i in range(gone)), *(f"w{i}" for i in range(60 - gone))]
    grown = old.extended(added, names, [""] * 60, np.zeros((60, 16), np.uint8))
    assert (len(grown), grown.kind) == (460 - gone, kind)
    grown.structure.prepare()
    # Every vector finds itself, which an index that missed or misplaced it could not.
    assert np.mean(grown.search(grown.vectors, 1).rows[:, 0] == np.arange(len(grown))) >= 0.99


def test_cells_grow_with_the_vectors() -> None:
    assert [cell_count(n) for n in (1, 100, 2000, 10**7)] == [1, 40, 179, 4096]


def test_kinds_are_chosen_by_number_or_by_name() -> None:
    assert kind_for(MANY) == "flat"
    assert kind_for(MANY + 1) == "ivf"
    assert kind_for(10, "hnsw") == "hnsw"
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
