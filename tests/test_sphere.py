from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.nn.functional import normalize

from holdfast import sphere
from holdfast.errors import DataError


def unit(count: int, dim: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return normalize(torch.randn(count, dim, generator=Generator().manual_seed(seed), dtype=dtype), dim=1)


def class_means(z: Tensor, labels: Tensor) -> Tensor:
    """Each vector's class mean."""
    return torch.stack([z[labels == label].mean(0) for label in labels])


FEW = settings(max_examples=40, deadline=None)


@FEW
@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=15), seed=st.integers(0, 10_000))
def test_variation_is_within_plus_between_classes(labels: list[int], seed: int) -> None:
    z, y = unit(len(labels), 5, seed), torch.tensor(labels)
    means = class_means(z, y)
    within, between = (z - means).square().sum(1).mean(), (means - z.mean(0)).square().sum(1).mean()
    assert sphere.total_variation(z).item() == pytest.approx((within + between).item(), abs=1e-9)
    assert sphere.total_variation(z).item() == pytest.approx(1 - z.mean(0).square().sum().item(), abs=1e-9)


def test_distances_equal_loops() -> None:
    a, b = unit(5, 4), 3 * unit(6, 4, seed=1)
    expected = torch.tensor([[math.dist(x, y) for y in b.tolist()] for x in a.tolist()], dtype=torch.float64)
    torch.testing.assert_close(sphere.distances(a, b), expected)
    torch.testing.assert_close(sphere.squared_distances(a, b), expected.square())
    torch.testing.assert_close(sphere.distance(a, b[:5]), expected.diagonal())
    torch.testing.assert_close(sphere.similarity(a), a @ a.T)


def test_distance_keeps_the_digits_of_small_differences() -> None:
    a = torch.full((1, 64), 0.125)
    b = a.clone()
    b[0, 0] += 2**-20
    assert sphere.distance(a, b).item() == pytest.approx(2**-20, rel=1e-6)


COINCIDING: dict[str, Callable[[Tensor], Tensor]] = {
    "distance": lambda z: sphere.distance(z[:2], z[1:3]).sum(),
    "distances": lambda z: sphere.distances(z[:2], z[2:]).sum(),
}


@pytest.mark.parametrize("name", COINCIDING)
def test_gradients_are_finite_where_vectors_coincide(name: str) -> None:
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    value = COINCIDING[name](z)
    (gradient,) = torch.autograd.grad(value, z)
    assert value.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("name", COINCIDING)
def test_gradients_equal_finite_differences(name: str) -> None:
    z = unit(4, 3).requires_grad_()
    assert torch.autograd.gradcheck(COINCIDING[name], (z,))


def test_square_root_has_zero_gradient_at_and_below_zero() -> None:
    x = torch.tensor([-1e-9, 0.0, 4.0], requires_grad=True)
    y = sphere.safe_sqrt(x)
    assert y.tolist() == [0, 0, 2]
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [0, 0, 0.25]


def test_half_precision_is_widened_also_under_autocast() -> None:
    z = unit(6, 32, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        inside = sphere.similarity(z)
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, z @ z.T)
    assert sphere.distances(z.bfloat16()).dtype == torch.float32
    assert sphere.precise(z.double()).dtype == torch.float64


def test_pairs_of_labels_and_of_a_relevance_matrix_agree() -> None:
    labels = torch.tensor([0, 1, 0, 2])
    positive, negative = sphere.pair_masks(labels)
    assert positive.nonzero().tolist() == [[0, 2], [2, 0]]
    assert int(negative.sum()) == 4 * 3 - 2
    assert not (positive & negative).any()
    assert not (positive | negative).diagonal().any()
    again = sphere.pair_masks(labels[:, None] == labels)
    assert torch.equal(again[0], positive)
    assert torch.equal(again[1], negative)


@pytest.mark.parametrize("labels", [torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, 2, dtype=torch.int64)])
def test_labels_of_a_wrong_shape_are_refused(labels: Tensor) -> None:
    with pytest.raises(DataError, match="must"):
        sphere.pair_masks(labels)


def test_means_of_rows() -> None:
    values, mask = torch.tensor([[1.0, 2.0, 6.0], [3.0, 4.0, 5.0]]), torch.tensor([[True, False, True], [False] * 3])
    assert sphere.row_mean(values, mask).tolist() == [3.5, 0]
    assert sphere.row_mean(values, mask, otherwise=1.0).tolist() == [3.5, 1]


def test_mean_of_nothing_is_zero_with_a_graph() -> None:
    values = torch.ones(3, requires_grad=True)
    mean = sphere.masked_mean(values, torch.zeros(3, dtype=torch.bool))
    mean.backward()
    assert mean.item() == 0
    assert values.grad is not None
    assert values.grad.tolist() == [0, 0, 0]


def test_a_distance_from_what_is_no_number_is_no_number() -> None:
    vectors = torch.tensor([[1.0, 0.0], [torch.nan, 0.0]])
    assert sphere.distances(vectors).isnan().tolist() == [[False, True], [True, True]]
    assert sphere.distance(vectors, vectors).isnan().tolist() == [False, True]
