from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from holdfast.errors import DataError
from holdfast.metrics import clustering, kmeans, nmi


def blobs(spread: float, classes: int = 8, each: int = 25) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    labels = torch.arange(classes).repeat(each)
    centres = normalize(torch.randn(classes, 16, generator=generator), dim=1)
    return normalize(centres[labels] + spread * torch.randn(len(labels), 16, generator=generator), dim=1), labels


@settings(max_examples=100, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 4)), min_size=1, max_size=40))
def test_nmi_equals_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    a, b = zip(*pairs, strict=True)
    assert nmi(torch.tensor(a), torch.tensor(b)) == pytest.approx(metrics.normalized_mutual_info_score(a, b), abs=1e-9)


def test_close_to_pytorch_metric_learning() -> None:
    calculators = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    pytest.importorskip("faiss")
    vectors, labels = blobs(spread=0.22)
    theirs = 100 * calculators.AccuracyCalculator(include=("NMI",)).get_accuracy(vectors, labels)["NMI"]
    ours = [clustering(vectors, labels, seed=seed)["NMI"] for seed in range(3)]
    assert 60 < theirs < 99.9
    assert min(abs(value - theirs) for value in ours if value is not None) < 4


def test_perfect_embedding() -> None:
    vectors, labels = blobs(spread=0.0)
    assert clustering(vectors, labels)["NMI"] == pytest.approx(100)


def test_number_of_clusters() -> None:
    vectors, labels = blobs(spread=0.3)
    values = clustering(vectors, labels, clusters=5, factor=3, seed=6)
    assert values["NMI"] == pytest.approx(100 * nmi(labels, kmeans(vectors, 5, seed=6)))
    assert values["NMI+"] == pytest.approx(100 * nmi(labels, kmeans(vectors, 24, seed=6)))
    by_default = clustering(vectors, labels, seed=6)["NMI"]
    assert by_default == pytest.approx(100 * nmi(labels, kmeans(vectors, 8, seed=6)))


@pytest.mark.parametrize("each", [5, 10])
def test_as_many_clusters_as_images_is_undefined(each: int) -> None:
    vectors, labels = blobs(spread=0.3, each=each)
    values = clustering(vectors, labels)
    assert values["NMI"] is not None
    assert values["NMI+"] is None
    assert values.reasons == {"NMI+": f"80 clusters asked of {8 * each} images"}
    assert clustering(vectors, labels, factor=each - 1)["NMI+"] is not None


def test_clusters_of_one_image_each_would_score_alike_whatever_the_embedding() -> None:
    """Why they are undefined: C classes of equal size among n images come to 2 log C / (log C + log n)."""
    labels = torch.arange(32).repeat_interleave(8)
    assert 100 * nmi(labels, torch.arange(256)) == pytest.approx(200 * 5 / (5 + 8))
    assert clustering(torch.randn(256, 4), labels, factor=8)["NMI+"] is None


def test_one_class_is_undefined() -> None:
    values = clustering(torch.eye(4), torch.zeros(4, dtype=torch.int64))
    assert values == {"NMI": None, "NMI+": None}
    assert "one class" in values.reasons["NMI"]


@pytest.mark.parametrize("wrong", [{"factor": 0}, {"clusters": 0}])
def test_mistakes_get_one_line(wrong: dict[str, int]) -> None:
    with pytest.raises(DataError, match="must be 1 or more"):
        clustering(torch.eye(4), torch.arange(4), **wrong)
