from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from holdfast.errors import DataError
from holdfast.metrics import kmeans, nmi


def points(count: int, dim: int, seed: int = 0) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def inertia(vectors: Tensor, clusters: Tensor) -> float:
    total = 0.0
    for cluster in clusters.unique():
        members = vectors[clusters == cluster]
        total += (members - members.mean(0)).square().sum().item()
    return total


def test_one_seed_one_answer() -> None:
    vectors = points(300, 8)
    assert torch.equal(kmeans(vectors, 9, seed=4), kmeans(vectors, 9, seed=4))
    assert not torch.equal(kmeans(vectors, 9, seed=4), kmeans(vectors, 9, seed=5))


@pytest.mark.parametrize("clusters", [12, 200])
def test_finds_clear_clusters(clusters: int) -> None:
    labels = torch.arange(clusters).repeat(6)
    vectors = 100 * points(clusters, 10)[labels] + points(len(labels), 10, seed=1)
    assert nmi(labels, kmeans(vectors, clusters, seed=0)) > 0.99


def test_as_good_as_scikit_learn() -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    vectors = points(600, 6)
    theirs = cluster.KMeans(20, n_init=1, max_iter=20, random_state=0).fit(vectors.numpy()).inertia_
    ours = [inertia(vectors, kmeans(vectors, 20, seed=seed)) for seed in range(3)]
    assert min(ours) < 1.03 * theirs


def test_more_iterations_never_cost_more() -> None:
    vectors = points(400, 4)
    costs = [inertia(vectors, kmeans(vectors, 10, seed=1, iterations=i)) for i in range(1, 12)]
    assert all(later <= earlier * (1 + 1e-5) for earlier, later in itertools.pairwise(costs))
    assert costs[-1] < costs[0]


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.integers(0, 4), min_size=1, max_size=30), data=st.data())
def test_duplicates_and_empty_clusters_do_no_harm(values: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    vectors = torch.tensor(values, dtype=torch.float32)[:, None]
    clusters = kmeans(vectors, k, seed=0)
    assert clusters.shape == (len(values),)
    assert clusters.min() >= 0
    assert clusters.max() < k
    if k >= len(set(values)):
        assert inertia(vectors, clusters) == pytest.approx(0, abs=1e-6)


def test_as_many_clusters_as_vectors() -> None:
    assert len(kmeans(points(300, 5), 300, seed=0).unique()) == 300


def test_an_empty_cluster_restarts_at_the_vector_worst_served() -> None:
    from holdfast.metrics.clustering import _means

    vectors = torch.tensor([[0.0], [1.0], [9.0]])
    means = _means(vectors, torch.tensor([0, 0, 0]), torch.tensor([4.0, 1.0, 25.0]), 2)
    assert means[1].item() == 9


@pytest.mark.parametrize("k", [0, 4])
def test_impossible_number_of_clusters(k: int) -> None:
    with pytest.raises(DataError, match="choose between 1 and 3"):
        kmeans(torch.eye(3), k, seed=0)


def test_no_iteration_is_refused() -> None:
    with pytest.raises(DataError, match="1 iteration or more"):
        kmeans(torch.eye(3), 2, seed=0, iterations=0)
