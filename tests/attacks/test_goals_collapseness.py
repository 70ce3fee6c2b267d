"""CA-TRIDE's goals against loops written from the formulas, in double precision."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from attack_cases import seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from holdfast.attacks import BoundGoal, MisplaceAnchors, MixCandidates
from holdfast.attacks.goals.collapseness import REACHED, collapseness, nearer_half

DIM = 5
sharpnesses = pytest.mark.parametrize("sharpness", [0.0, 2.0, 10.0])
counts = pytest.mark.parametrize("count", [1, 2, 7])


def unit(count: int, seed: int) -> Tensor:
    return F.normalize(torch.randn(count, DIM, generator=seeded(seed), dtype=torch.float64), dim=1)


def apart(a: Tensor, b: Tensor) -> list[Tensor]:
    """d of each row, with 1e-6 added to every difference."""
    return [(x - y + 1e-6).square().sum().sqrt() for x, y in zip(a, b, strict=True)]


def collapse_by_hand(distances: Sequence[Tensor], sharpness: float) -> Tensor:
    largest = max(d.item() for d in distances)
    weights = [torch.exp(sharpness * (d - largest)) for d in distances]
    return sum(w * d for w, d in zip(weights, distances, strict=True)) / sum(weights)  # type: ignore[return-value]


def nearer_by_hand(distances: Sequence[Tensor]) -> Tensor:
    kept = sorted(distances, key=Tensor.item)[: max(1, len(distances) // 2)]
    return sum(kept) / len(kept)  # type: ignore[return-value]


def candidates_by_hand(z: Tensor, anchor: Tensor, sharpness: float) -> Tensor:
    count = len(anchor)
    near, far = apart(anchor, z[:count]), apart(anchor, z[count:])
    return torch.relu(collapse_by_hand(far, sharpness) - collapse_by_hand(near, sharpness))


def anchors_by_hand(z: Tensor, clean: Tensor, positive: Tensor, negative: Tensor, sharpness: float) -> Tensor:
    near, far, shift = apart(z, positive), apart(z, negative), apart(z, clean)
    gap = collapse_by_hand(near, sharpness) - collapse_by_hand(far, sharpness)
    weight = math.exp(-max(0.0, -gap.item()))
    return torch.relu(gap) + weight * torch.relu(nearer_by_hand(far) - sum(shift) / len(shift))


def value_and_gradient(loss: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    return loss.detach(), torch.autograd.grad(loss, z)[0]


def agree(goal: BoundGoal, z: Tensor, by_hand: Tensor) -> None:
    loss = goal.loss(z)
    assert loss.shape == (1,)
    found, expected = value_and_gradient(loss.sum(), z), value_and_gradient(by_hand, z)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@sharpnesses
@counts
def test_collapseness(count: int, sharpness: float) -> None:
    d = (2 * torch.rand(count, generator=seeded(count), dtype=torch.float64)).requires_grad_()
    value, slope = value_and_gradient(collapseness(d, sharpness), d)
    torch.testing.assert_close(value, collapse_by_hand(list(d.detach()), sharpness))
    values = d.tolist()
    weights = [math.exp(sharpness * x) for x in values]
    closed = [w / sum(weights) * (1 + sharpness * (x - float(value))) for w, x in zip(weights, values, strict=True)]
    torch.testing.assert_close(slope, torch.tensor(closed, dtype=torch.float64))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 2), min_size=1, max_size=9), st.floats(0, 50))
def test_collapseness_lies_between_the_mean_and_the_largest(values: list[float], sharpness: float) -> None:
    d = torch.tensor(values, dtype=torch.float64)
    assert d.mean() - 1e-12 <= collapseness(d, sharpness) <= d.max() + 1e-12
    torch.testing.assert_close(collapseness(d, 0.0), d.mean())
    if d.max() - d.min() > 0.01 or len(set(values)) == 1:
        assert collapseness(d, 1e5) >= d.sort().values[-1] - 1e-3


@pytest.mark.parametrize(
    ("values", "mean"), [([3.0], 3.0), ([3.0, 1.0], 1.0), ([5.0, 1.0, 4.0], 1.0), ([4.0, 2.0, 1.0, 3.0], 1.5)]
)
def test_the_nearer_half(values: list[float], mean: float) -> None:
    assert float(nearer_half(torch.tensor(values, dtype=torch.float64))) == mean


@sharpnesses
@counts
@pytest.mark.parametrize("seed", range(4))
def test_candidates(count: int, sharpness: float, seed: int) -> None:
    z, anchor = unit(2 * count, seed).requires_grad_(), unit(count, 100 + seed)
    goal = MixCandidates(anchor, sharpness)
    assert goal.images() == 2 * count
    agree(goal, z, candidates_by_hand(z, anchor, sharpness))


@sharpnesses
@counts
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("moved", [0.0, 0.3, 3.0])
def test_anchors(count: int, sharpness: float, seed: int, moved: float) -> None:
    clean, positive, negative = (unit(count, 100 * k + seed) for k in range(1, 4))
    z = F.normalize(clean + moved * unit(count, seed), dim=1).requires_grad_()
    goal = MisplaceAnchors(clean, positive, negative, sharpness)
    assert goal.images() == count
    agree(goal, z, anchors_by_hand(z, clean, positive, negative, sharpness))


def test_collapseness_enters_with_opposite_signs() -> None:
    anchor, positive, negative = (unit(6, seed) for seed in range(3))
    both = torch.cat((positive, negative)), torch.cat((negative, positive))
    gaps = [float(MixCandidates(anchor, 2.0).measure(z)["collapseness"]) for z in both]
    assert gaps[0] == pytest.approx(-gaps[1])
    for z, gap in zip(both, gaps, strict=True):
        goal = MisplaceAnchors(anchor, *z.chunk(2), 2.0)
        assert float(goal.measure(anchor)["collapseness"]) == pytest.approx(gap)
        assert float(MixCandidates(anchor, 2.0).loss(z)) == pytest.approx(max(0.0, -gap))
        far = F.normalize(-anchor, dim=1)  # a shift of 2 leaves nothing of the second term
        assert float(goal.loss(far)) == pytest.approx(max(0.0, float(goal.measure(far)["collapseness"])))


def test_what_is_reached_is_the_released_codes() -> None:
    assert MixCandidates.floor == MisplaceAnchors.floor == REACHED == 1e-5
    assert MixCandidates.group is MisplaceAnchors.group is None
