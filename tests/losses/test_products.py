"""Products of a batch with itself against their plain form."""

from __future__ import annotations

import pytest
import torch

from holdfast.losses import products
from holdfast.losses.products import across, add_transpose, both_ways, gram


def vectors(size: int, dim: int = 5) -> torch.Tensor:
    return torch.randn(size, dim, generator=torch.Generator().manual_seed(size), dtype=torch.float64)


@pytest.mark.parametrize("tile", [1, 3, 7, 100])
@pytest.mark.parametrize("size", [0, 1, 6, 7, 20])
def test_gram_and_transpose(size: int, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "TILE", tile)
    z = vectors(size)
    torch.testing.assert_close(gram(z), z @ z.T)
    matrix = vectors(size, size)
    torch.testing.assert_close(add_transpose(matrix.clone()), matrix + matrix.T)


@pytest.mark.parametrize("pairs", [0, 1, 4])
def test_across(pairs: int) -> None:
    chosen = vectors(2 * pairs).requires_grad_()
    torch.testing.assert_close(across(chosen), chosen[:pairs] @ chosen[pairs:].T)
    assert torch.autograd.gradcheck(across, (chosen,))


def test_across_is_float32_under_autocast() -> None:
    chosen = vectors(8).bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        matrix = across(chosen)
        matrix.sum().backward()
    assert matrix.dtype == torch.float32
    torch.testing.assert_close(matrix, chosen.float()[:4] @ chosen.float()[4:].T)
    torch.testing.assert_close(chosen.grad[:4].float(), chosen.float()[4:].sum(0).bfloat16().float().expand(4, -1))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("limit", [0.0, 0.02, 1.0])
def test_both_ways(density: float, limit: float, squared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same whether the matrix is nearly empty or full, and whichever way is taken for it."""
    monkeypatch.setattr(products, "SPARSE", limit)
    z, matrix = vectors(40), vectors(40, 40)
    matrix *= torch.rand(40, 40, generator=torch.Generator().manual_seed(0)) < density
    both = matrix + matrix.T
    if squared:
        both = both - both.sum(1).diag()
    torch.testing.assert_close(both_ways(matrix, z, squared), both @ z)


def test_one_full_row_among_empty_ones() -> None:
    """The rows looked at first may say that a matrix is nearly empty when it is not."""
    for row in range(40):
        z, matrix = vectors(40), torch.zeros(40, 40, dtype=torch.float64)
        matrix[row] = 1
        both = matrix + matrix.T
        torch.testing.assert_close(both_ways(matrix, z, squared=False), both @ z)


@pytest.mark.parametrize("limit", [0.0, 1.0])
def test_what_is_not_a_number_spreads(limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "SPARSE", limit)
    z = vectors(6)
    z[2, 3] = torch.nan
    assert both_ways(torch.zeros(6, 6, dtype=torch.float64), z, squared=False)[:, 3].isnan().all()
