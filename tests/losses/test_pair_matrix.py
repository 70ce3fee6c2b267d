"""Large batches against the plain formula: symmetry, fewer columns and blocks of rows change nothing."""

from __future__ import annotations

import math

import pytest
import torch
from loss_batches import batch, value_and_gradient
from torch import Tensor

from holdfast import losses, mining, pair_matrix
from holdfast.losses import AveragedLoss, PairLoss, TripletLoss, masked_logsumexp
from holdfast.losses.unreduced import total_mean
from holdfast.registry import Registry

KINDS = {name: Registry.of(losses.Loss).get(name) for name in losses.names()}  # type: ignore[union-attr]
BLOCKED = ["triplet-cosine", "sct"]
NAMES = [name for name, kind in KINDS.items() if isinstance(kind, type) and issubclass(kind, PairLoss)] + BLOCKED


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every batch counts as a large one."""
    monkeypatch.setattr(pair_matrix, "LARGE", 1)
    monkeypatch.setattr(pair_matrix, "SMALL", 0)
    return monkeypatch


def plain(loss: losses.Loss, z: Tensor, labels: Tensor, tuples: mining.Tuples | None = None) -> tuple[Tensor, Tensor]:
    """Value and gradient of the formula as it stands."""
    leaf = z.clone().requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_matrix, "LARGE", 10**9)
        patch.setattr(pair_matrix, "SMALL", 10**18)
        patch.setattr(pair_matrix, "BLOCK", 10**9)
        value = loss(leaf, labels, tuples)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def test_every_kind_of_loss_is_here() -> None:
    assert {"circle", "contrastive", "info-nce", "multi-similarity", "n-pair", "sup-con"} < set(NAMES)
    assert issubclass(KINDS["sct"], TripletLoss)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", ["both", "positive", "negative"])
@pytest.mark.parametrize("miner", [None, "multi-similarity"])
@pytest.mark.parametrize("classes", [5, 32])
@pytest.mark.parametrize("block", [1, 1000])
def test_size_changes_nothing(
    name: str, part: str, miner: str | None, classes: int, block: int, small: pytest.MonkeyPatch
) -> None:
    """A multiple of eight images, of which positives take few columns, and another number."""
    for unit in (True, False):
        z, labels = batch(8, classes, unit=unit)
        z = z.double()
        small.setattr(pair_matrix, "BLOCK", block)
        tuples = None if miner is None else mining.build(miner)(z, labels)
        loss = losses.build(name, part=part)
        expected, expected_gradient = plain(loss, z, labels, tuples)
        value, gradient = value_and_gradient(loss, z, labels, tuples)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(gradient, expected_gradient)
        assert not unit or gradient.norm() > 1e-6
        with torch.no_grad():
            torch.testing.assert_close(loss(z, labels, tuples), expected)


def test_a_miner_of_ones_own_is_asked() -> None:
    """Also one that is nearly the miner whose work a loss does itself."""

    class Nothing(mining.MultiSimilarityMiner):
        def __call__(self, *given: object) -> mining.Pairs:  # type: ignore[override]
            none = torch.empty(0, dtype=torch.long)
            return mining.Pairs(none, none, none.bool())

    z, labels = batch(3)
    assert losses.MultiSimilarity(miner=mining.MultiSimilarityMiner())(z, labels) > 0
    assert losses.MultiSimilarity(miner=Nothing())(z, labels) == 0


@pytest.mark.parametrize("name", NAMES)
def test_large_batches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    product, blocks = pair_matrix._symmetric, pair_matrix._RowSum.apply
    monkeypatch.setattr(pair_matrix, "_symmetric", lambda *given: (taken.append("half"), product(*given))[1])
    monkeypatch.setattr(pair_matrix._RowSum, "apply", lambda *given: (taken.append("blocks"), blocks(*given))[1])
    z, labels = batch(1, classes=300, dim=16)
    loss = losses.build(name)
    value, gradient = value_and_gradient(loss, z, labels)
    assert taken == ([] if name == "n-pair" else ["half", "blocks"] if name in BLOCKED else ["half"])
    for found, expected in zip((value, gradient), plain(loss, z, labels), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)
    taken.clear()
    value_and_gradient(loss, *batch(1))
    assert not taken


@pytest.mark.parametrize("columns", [8, 24, 64, 65])
@pytest.mark.parametrize("number", [0, 1, 3, 64])
def test_packed(columns: int, number: int, small: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(columns)
    mask = torch.rand(10, columns, generator=generator).argsort(1) < number
    one, two = torch.randn(2, 10, columns, generator=generator)
    exists, first, second = pair_matrix.packed(mask, one, two)
    assert exists.shape == first.shape == second.shape
    assert (exists.shape[1] < columns) is (columns in (24, 64) and number <= 1)
    for row in range(10):
        expected = sorted(zip(one[row][mask[row]].tolist(), two[row][mask[row]].tolist(), strict=True))
        found = zip(first[row][exists[row]].tolist(), second[row][exists[row]].tolist(), strict=True)
        assert sorted(found) == expected


@pytest.mark.parametrize("name", NAMES)
def test_gradient_follows_what_is_done_to_the_loss(name: str, small: pytest.MonkeyPatch) -> None:
    z, labels = batch(9)
    leaf = z.requires_grad_()
    value = losses.build(name)(leaf, labels)
    (once,) = torch.autograd.grad(value, leaf, retain_graph=True)
    (again,) = torch.autograd.grad(-3 * value, leaf)
    torch.testing.assert_close(again, -3 * once)


@pytest.mark.parametrize("size", [0, 1, 6, 7, 20])
def test_gram(size: int, small: pytest.MonkeyPatch) -> None:
    z = vectors(size).requires_grad_()
    torch.testing.assert_close(pair_matrix.gram(z), z @ z.T)
    weights = vectors(size, size)
    for way in (torch.Tensor.clone, torch.t):  # gradients of either layout
        found, expected = (torch.autograd.grad((weights * way(s)).sum(), z) for s in (pair_matrix.gram(z), z @ z.T))
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("density", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("limit", [0.0, 0.02, 1.0])
def test_sparse_gradients(density: float, limit: float, small: pytest.MonkeyPatch) -> None:
    """The same whether the gradient of the matrix is nearly empty or full, and whichever way is taken for it."""
    small.setattr(pair_matrix, "SPARSE", limit)
    z, matrix = vectors(40).requires_grad_(), vectors(40, 40)
    matrix *= torch.rand(40, 40, generator=torch.Generator().manual_seed(0)) < density
    for weights in (matrix, torch.eye(40, dtype=torch.float64)[7][:, None].expand(40, 40)):  # one full row among empty
        (gradient,) = torch.autograd.grad((weights * pair_matrix.gram(z)).sum(), z)
        torch.testing.assert_close(gradient, (weights + weights.T) @ z.detach())


@pytest.mark.parametrize("limit", [0.0, 1.0])
def test_nan_in_nan_out(limit: float, small: pytest.MonkeyPatch) -> None:
    small.setattr(pair_matrix, "SPARSE", limit)
    z = vectors(6)
    z[2, 3] = torch.nan
    z.requires_grad_()
    assert torch.autograd.grad((0 * pair_matrix.gram(z)).sum(), z)[0][:, 3].isnan().all()


def test_parameters_of_a_loss_learn_from_large_batches(small: pytest.MonkeyPatch) -> None:
    class Scaled(PairLoss):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def pairs(self, s: Tensor, pos: Tensor, neg: Tensor) -> list[losses.Unreduced]:
            return [losses.Unreduced(self.scale * s, neg)]

    loss = Scaled()
    loss(*batch()).backward()
    assert loss.scale.grad is not None
    assert loss.scale.grad.abs() > 1e-4


@pytest.mark.parametrize("scale", [1.0, -2.0, 400.0])
def test_masked_logsumexp(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(5, 9, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.rand(5, 9, generator=generator) > 0.5
    mask[:, 0] = True
    result = masked_logsumexp(scale * values, mask)
    for row, (entries, wanted) in enumerate(zip(values.tolist(), mask.tolist(), strict=True)):
        kept = [scale * entry for entry, one in zip(entries, wanted, strict=True) if one]
        expected = max(kept) + math.log(sum(math.exp(entry - max(kept)) for entry in kept))
        assert math.isclose(float(result.detach()[row]), expected, rel_tol=1e-12)
    if abs(scale) < 100:  # finite differences of a sharper one are all rounding
        assert torch.autograd.gradcheck(lambda v: masked_logsumexp(scale * v, mask), values)


def test_masked_logsumexp_of_nothing() -> None:
    values = torch.randn(2, 3).requires_grad_()
    result = masked_logsumexp(values, torch.zeros(2, 3, dtype=torch.bool))
    assert (result < -1e37).all()
    assert (result + result).isfinite().all()
    value = torch.nn.functional.softplus(result).sum()
    assert value == 0
    assert (torch.autograd.grad(value, values)[0] == 0).all()
    assert masked_logsumexp(torch.zeros(0, 0), torch.zeros(0, 0, dtype=torch.bool)).shape == (0,)


def test_averages_are_those_of_the_unreduced_losses() -> None:
    z, labels = batch(3)
    for name in ("contrastive", "multi-similarity"):
        loss = losses.build(name)
        assert isinstance(loss, AveragedLoss)
        torch.testing.assert_close(total_mean(loss.unreduced(z, labels)), loss(z, labels))


def vectors(size: int, dim: int = 5) -> Tensor:
    return torch.randn(size, dim, generator=torch.Generator().manual_seed(size), dtype=torch.float64)


@pytest.mark.parametrize("name", ["multi-similarity", "contrastive", "lifted-structure"])
def test_a_compiler_gets_one_graph_of_a_large_batch(name: str) -> None:
    z, y = batch(classes=pair_matrix.LARGE // 4, per_class=4)
    plain = losses.build(name)
    compiled = torch.compile(plain, backend="eager", fullgraph=True)
    for found, wanted in zip(value_and_gradient(compiled, z, y), value_and_gradient(plain, z, y), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_a_relevance_matrix_may_lie_in_any_order(small: pytest.MonkeyPatch, name: str) -> None:
    z, labels = batch(2, classes=8, per_class=2)
    relevant = labels[:, None] == labels
    expected, _ = value_and_gradient(losses.build(name), z, relevant)
    value, _ = value_and_gradient(losses.build(name), z, relevant.t().contiguous().t())
    assert value == pytest.approx(expected)
