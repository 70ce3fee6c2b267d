from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdfast.errors import SearchError
from holdfast.search import Filter, Index, SearchResult
from holdfast.search.kinds import KINDS, MANY, kind_for
from holdfast.search.memory import KINDS as IN_MEMORY
from holdfast.search.memory import Structure, cell_count
from index_cases import IndexOf, images_of, index_of, unit_vectors

DIM = 16


def brute_force(vectors: NDArray[np.float32], query: NDArray[np.float32], k: int) -> list[int]:
    apart = [float(np.sqrt(((v.astype(np.float64) - query.astype(np.float64)) ** 2).sum())) for v in vectors]
    return sorted(range(len(vectors)), key=lambda row: (apart[row], row))[:k]


def names(found: SearchResult) -> list[list[str]]:
    return [[found.images.ids[row] for row in rows if row >= 0] for rows in found.rows.tolist()]


def recall(index: Index, vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int = 10) -> float:
    exact, found = names(index_of(vectors, "flat").search(queries, k)), names(index.search(queries, k))
    return float(np.mean([len(set(a) & set(b)) / k for a, b in zip(exact, found, strict=True)]))


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 60), dim=st.integers(1, 20), k=st.integers(1, 12), seed=st.integers(0, 99))
def test_flat_is_brute_force(count: int, dim: int, k: int, seed: int) -> None:
    vectors, queries = unit_vectors(count, dim + 1, seed), unit_vectors(4, dim + 1, seed + 1)
    found = index_of(vectors, "flat").search(queries, k)
    for query, rows, distances in zip(queries, found.rows, found.distances, strict=True):
        assert rows.tolist() == brute_force(vectors, query, k)
        np.testing.assert_allclose(distances, np.linalg.norm(vectors[rows] - query, axis=1), rtol=1e-5)


LEAST = {"flat": 1.0, "ivf": 0.9, "hnsw": 0.97, "milvus": 0.99}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_finds_most_of_what_flat_finds(kind: str, index_of_kind: IndexOf) -> None:
    vectors = unit_vectors(4000, DIM, clusters=100)
    assert recall(index_of_kind(vectors, kind), vectors, unit_vectors(100, DIM, 1, clusters=100)) >= LEAST[kind]


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [0, 1000])
def test_milvus_finds_what_flat_finds_among_many(clusters: int, index_of_kind: IndexOf) -> None:
    vectors = unit_vectors(100_000, 64, clusters=clusters)
    assert recall(index_of_kind(vectors, "milvus"), vectors, unit_vectors(100, 64, 1, clusters=clusters)) >= 0.99


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_queries_are_answered_exactly_until_building_pays(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IN_MEMORY, kind, (IN_MEMORY[kind][0], 40))
    vectors, queries = unit_vectors(600, DIM), unit_vectors(40, DIM, 1)
    structure = Structure(vectors, kind, 0)
    np.testing.assert_array_equal(structure.search(queries, 9), Structure(vectors, "flat", 0).search(queries, 9))
    prepared = Structure(vectors, kind, 0)
    prepared.prepare()
    np.testing.assert_array_equal(structure.search(queries[:1], 9), prepared.search(queries[:1], 9))
    assert type(structure._faiss) is type(prepared._faiss) is not type(Structure(vectors, "flat", 0)._faiss)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gone", [0, 25])
def test_an_extended_index_is_over_the_new_vectors(kind: str, gone: int, index_of_kind: IndexOf) -> None:
    old, added = unit_vectors(400, DIM), unit_vectors(60, DIM, 1)
    grown = index_of_kind(old, kind).extended(added, images_of(60, first=400 - gone))
    assert (len(grown), grown.kind) == (460 - gone, kind)
    grown.prepare()
    # Every vector finds itself, which an index that missed or misplaced it could not.
    now = np.concatenate([old[: 400 - gone], added])
    found = names(grown.search(now, 1))
    assert np.mean([name == [f"v{row}"] for row, name in enumerate(found)]) >= 0.99
    np.testing.assert_array_equal(grown.vectors_of([f"v{row}" for row in range(len(now))][::-7]), now[::-7])


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_knows_what_is_in_it(kind: str, index_of_kind: IndexOf) -> None:
    index, images = index_of_kind(unit_vectors(20, DIM), kind), images_of(20)
    assert index.known(["v3", "nobody", "v4"]) == {"v3": images[3], "v4": images[4]}
    assert index.known([]) == {}
    images.fingerprints[0] ^= 1
    images.labels[1] = "another"
    images.groups[2] = "another"
    images.ids[3] = "another"
    assert index.states(images) == ["changed"] * 3 + ["new"] + ["same"] * 16


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_leaves_the_nearest_of_what_fits(kind: str, index_of_kind: IndexOf) -> None:
    vectors, images, queries = unit_vectors(90, DIM), images_of(90), unit_vectors(5, DIM, 1)
    index = index_of_kind(vectors, kind)
    for labels, groups, k in (
        (("label 1",), (), 4),
        ((), ("group 0", "group 2"), 4),
        (("label 0",), ("group 1",), 50),
        (("label 0", "label 1", "nobody's"), (), 4),
        (("nobody's",), (), 4),
        (('label 1" or label != "',), (), 4),
    ):
        fitting = [
            row
            for row in range(90)
            if (not labels or images.labels[row] in labels) and (not groups or images.groups[row] in groups)
        ]
        found = index.search(queries, k, where=Filter(labels, groups))
        for query, near, apart in zip(queries, names(found), found.distances, strict=True):
            expected = [fitting[row] for row in brute_force(vectors[fitting], query, k)]
            assert near == [f"v{row}" for row in expected]
            exact = [math.dist(vectors[row].tolist(), query.tolist()) for row in expected]
            np.testing.assert_allclose(apart[: len(exact)], exact, rtol=1e-5)
            assert np.isinf(apart[len(exact) :]).all()


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
@pytest.mark.parametrize(("count", "centres", "k"), [(200, 0, 100), (200, 0, 200), (2000, 20, 200), (2000, 1, 2000)])
def test_as_many_neighbours_are_found_as_are_asked_for(
    count: int, centres: int, k: int, kind: str, index_of_kind: IndexOf
) -> None:
    vectors = unit_vectors(count, DIM)
    if centres:  # hundreds of copies each, which a graph links to one another alone
        vectors = np.repeat(vectors[:centres], count // centres, 0)
    found = names(index_of_kind(vectors, kind).search(vectors[:20], k))
    assert {len(set(near)) for near in found} == {k}


def test_the_memory_of_a_search_does_not_grow_with_its_queries() -> None:
    vectors = unit_vectors(2000, 256)
    index = index_of(vectors)
    tracemalloc.start()
    index.search(vectors, 50)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 * 2**20, "2,000 × 54 × 256 numbers would take 105 MB, and twice or more"


def test_cells_grow_with_the_vectors() -> None:
    assert [cell_count(n) for n in (1, 100, 2000, 10**7)] == [1, 40, 179, 4096]


def test_kinds_are_chosen_by_number_or_by_name() -> None:
    assert kind_for(MANY) == "flat"
    assert kind_for(MANY + 1) == "ivf"
    assert kind_for(10, "hnsw") == "hnsw"
    with pytest.raises(SearchError, match="did you mean 'hnsw'"):
        kind_for(10, "hnws")


@pytest.mark.parametrize("kind", KINDS)
def test_more_neighbours_than_images_are_all_images(kind: str, index_of_kind: IndexOf) -> None:
    vectors = unit_vectors(5, DIM)
    assert sorted(names(index_of_kind(vectors, kind).search(vectors[:1], 50))[0]) == ["v0", "v1", "v2", "v3", "v4"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_that_cannot_be_is_refused(kind: str, index_of_kind: IndexOf) -> None:
    index = index_of_kind(unit_vectors(5, DIM), kind)
    with pytest.raises(SearchError, match="16 dims"):
        index.search(unit_vectors(1, 3))
    with pytest.raises(SearchError, match="1 or more"):
        index.search(unit_vectors(1, DIM), 0)
    with pytest.raises(SearchError, match="not finite"):
        index.search(np.full((1, DIM), np.nan, np.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_copies_of_a_query_are_skipped(kind: str, index_of_kind: IndexOf) -> None:
    vectors = unit_vectors(50, DIM)
    index = index_of_kind(vectors, kind)
    plain, others = (names(index.search(vectors, 3, without=w)) for w in (None, images_of(50).fingerprints))
    assert [near[0] for near in plain] == [f"v{row}" for row in range(50)]
    assert [near[1:] for near in plain] == [near[:2] for near in others]
