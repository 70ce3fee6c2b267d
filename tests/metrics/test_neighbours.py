from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import DataError
from holdfast.metrics import base, neighbours, retrieval

POINTS = st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=2, max_size=14)
BLOCKS = st.sampled_from([base.BLOCK, 1, 8, 30])


@settings(max_examples=100, deadline=None)
@given(queries=POINTS, gallery=POINTS, k=st.integers(1, 14), chunk=st.none() | st.integers(1, 4), block=BLOCKS)
def test_equals_a_full_sort_with_ties_by_index(
    queries: list[tuple[int, int]], gallery: list[tuple[int, int]], k: int, chunk: int | None, block: int
) -> None:
    k = min(k, len(gallery))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "BLOCK", block)
        distances, indices = neighbours(torch.tensor(queries), torch.tensor(gallery), k, chunk=chunk)
    for (x, y), found, nearest in zip(queries, distances.tolist(), indices.tolist(), strict=True):
        ranking = sorted(((x - u) ** 2 + (y - v) ** 2, j) for j, (u, v) in enumerate(gallery))[:k]
        assert nearest == [j for _, j in ranking]
        assert found == pytest.approx([d**0.5 for d, _ in ranking], abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(points=POINTS, chunk=st.none() | st.integers(1, 4), block=BLOCKS)
def test_excluding_self_is_by_index(points: list[tuple[int, int]], chunk: int | None, block: int) -> None:
    vectors = torch.tensor(points)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "BLOCK", block)
        _, everything = neighbours(vectors, vectors, len(points), chunk=chunk)
        _, others = neighbours(vectors, vectors, len(points) - 1, exclude_self=True, chunk=chunk)
    for i, (row, rest) in enumerate(zip(everything.tolist(), others.tolist(), strict=True)):
        assert rest == [j for j in row if j != i]


@settings(max_examples=50, deadline=None)
@given(points=POINTS, data=st.data())
def test_agrees_with_retrieval_on_ties(points: list[tuple[int, int]], data: st.DataObject) -> None:
    labels = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=len(points), max_size=len(points))))
    vectors = torch.tensor(points).float()
    _, nearest = neighbours(vectors, vectors, 1, exclude_self=True)
    answerable = (labels[:, None] == labels).sum(1) > 1
    recall = retrieval(vectors, labels, (1,))["R@1"]
    if answerable.any():
        hits = (labels[nearest[:, 0]] == labels)[answerable]
        assert recall == pytest.approx(100 * hits.double().mean().item())
    else:
        assert recall is None


def test_equals_faiss() -> None:
    faiss = pytest.importorskip("faiss")
    generator = torch.Generator().manual_seed(0)
    queries, gallery = torch.randn(50, 24, generator=generator), torch.randn(300, 24, generator=generator)
    index = faiss.IndexFlatL2(24)
    index.add(gallery.numpy())
    squared, expected = index.search(queries.numpy(), 10)
    distances, indices = neighbours(queries, gallery, 10, chunk=7)
    assert (indices.numpy() == expected).all()
    assert torch.allclose(distances, torch.from_numpy(squared).sqrt(), atol=1e-4)


def test_a_vector_that_is_no_number_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK", 8)  # four items at a time
    gallery = torch.tensor([[3.0], [4.0], [5.0], [6.0], [torch.nan], [1.0], [2.0], [7.0]])
    _, indices = neighbours(torch.zeros(2, 1), gallery, 2)
    assert indices.tolist() == [[5, 6], [5, 6]]


def test_small_distances_keep_their_digits() -> None:
    a = torch.nn.functional.normalize(torch.ones(1, 64), dim=1)
    b = a.clone()
    b[0, 0] += 2**-18
    distances, _ = neighbours(a, b, 1)
    assert distances.item() == pytest.approx(2**-18, rel=1e-2)  # from dot products it would be 0 or 3e-4


@pytest.mark.parametrize(("k", "exclude"), [(0, False), (4, False), (3, True)])
def test_impossible_k(k: int, exclude: bool) -> None:
    with pytest.raises(DataError, match="choose k between"):
        neighbours(torch.eye(3), torch.eye(3), k, exclude_self=exclude)


def test_excluding_self_needs_as_many_queries_as_items() -> None:
    with pytest.raises(DataError, match="exclude_self"):
        neighbours(torch.eye(3)[:2], torch.eye(3), 1, exclude_self=True)


def test_neighbours_in_a_narrow_cone_are_in_order() -> None:
    """Products in float32 find them, and differences order them."""
    draw = torch.Generator().manual_seed(0)
    spread = torch.randn(600, 32, generator=draw)
    vectors = torch.nn.functional.normalize(torch.ones(32) + 0.005 * spread, dim=1)
    found, indices = neighbours(vectors, vectors, 20)
    assert (found.diff(dim=1) >= 0).all()
    apart = (vectors[:, None] - vectors[indices]).double().norm(dim=2)
    torch.testing.assert_close(found.double(), apart, rtol=1e-5, atol=1e-9)
