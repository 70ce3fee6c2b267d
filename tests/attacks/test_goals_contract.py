"""What every goal promises."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attack_cases import VARIANTS, bound, network, pictures, references, seeded
from torch import Tensor
from torch.nn import functional as F

from holdfast import attacks
from holdfast.attacks import BoundGoal, Budget, References
from holdfast.attacks.base import registry
from holdfast.errors import DataError

cases = pytest.mark.parametrize(("name", "arguments"), VARIANTS)
BUDGET = Budget(eps=0.05, steps=6, step=0.01)

ORDER = torch.randperm(24, generator=seeded(3))
"""Attacked images in an order that puts several classes into each pair and triplet."""


def groups_of(goal: BoundGoal, images: int) -> int:
    return 1 if goal.group is None else images // goal.group


def embeddings(count: int, seed: int = 0) -> Tensor:
    return F.normalize(torch.randn(count, 6, generator=seeded(seed), dtype=torch.float64), dim=1)


def gallery(dtype: torch.dtype = torch.float64) -> References:
    return References(embeddings(24, 5).to(dtype), pictures()[1])


def test_every_goal_of_the_specification_is_there() -> None:
    assert set(attacks.names()) >= {
        "ca+", "ca-", "qa+", "qa-", "tma", "es", "ltm", "gtm", "gtt", "alignment", "uniformity", "triplet",
        "alignment-uniformity", "single-target", "multi-target", "unadversarial", "shift", "collapse", "hardness",
        "worst-of", "sum",
    }  # fmt: skip


@pytest.mark.parametrize("name", attacks.names())
def test_documented(name: str) -> None:
    text = registry.get(name).__doc__ or ""
    assert text.splitlines()[0].endswith(".")
    assert "Relations:" in text


@cases
def test_one_finite_value_per_group(name: str, arguments: dict[str, Any]) -> None:
    goal = bound(name, arguments, gallery(), ORDER)
    z = embeddings(24, 1)
    count = (groups_of(goal, 24),)
    assert goal.loss(z).shape == count
    assert goal.loss(z).isfinite().all()
    assert (goal.loss(z) >= goal.floor).all()
    measures = goal.measure(z)
    assert measures
    for value in measures.values():
        assert value.shape == count
        assert value.is_floating_point()
        assert value.isfinite().all()


@cases
def test_gradient_matches_finite_differences(name: str, arguments: dict[str, Any]) -> None:
    goal = bound(name, arguments, gallery(), ORDER)
    z = embeddings(24, 2).requires_grad_()
    (gradient,) = torch.autograd.grad(goal.loss(z).sum(), z)
    assert gradient.norm() > 1e-3
    with torch.no_grad():
        for seed in range(3):
            direction = torch.randn(z.shape, generator=seeded(seed), dtype=torch.float64)
            change = goal.loss(z + 1e-6 * direction).sum() - goal.loss(z - 1e-6 * direction).sum()
            torch.testing.assert_close((gradient * direction).sum(), change / 2e-6, rtol=1e-5, atol=1e-6)


@cases
def test_groups_do_not_touch_each_other(name: str, arguments: dict[str, Any]) -> None:
    goal = bound(name, arguments, gallery(), ORDER)
    if goal.group is None:
        return
    z = embeddings(24, 3).requires_grad_()
    (gradient,) = torch.autograd.grad(goal.loss(z)[1], z)
    touched = gradient.norm(dim=1).nonzero().squeeze(1).tolist()
    assert set(touched) <= set(range(goal.group, 2 * goal.group))


@cases
def test_part_of_a_goal(name: str, arguments: dict[str, Any]) -> None:
    goal = bound(name, arguments, gallery(), ORDER)
    if goal.group is None:
        return
    z = embeddings(24, 4)
    chosen = torch.tensor([2, 0, 5])
    rows = (chosen[:, None] * goal.group + torch.arange(goal.group)).flatten()
    part = goal.take(chosen)
    torch.testing.assert_close(part.loss(z[rows]), goal.loss(z)[chosen])
    for key, value in part.measure(z[rows]).items():
        torch.testing.assert_close(value, goal.measure(z)[key][chosen])


@cases
def test_coinciding_embeddings_have_finite_gradients(name: str, arguments: dict[str, Any]) -> None:
    same = embeddings(1).expand(24, 6).clone()
    goal = bound(name, arguments, References(same, pictures()[1]), ORDER)
    z = same.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(goal.loss(z).sum(), z)
    assert gradient.isfinite().all()


@cases
def test_half_precision_embeddings_cost_in_float32(name: str, arguments: dict[str, Any]) -> None:
    goal = bound(name, arguments, gallery(torch.float32), ORDER)
    half = embeddings(24, 6).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        value = goal.loss(half)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, goal.loss(half.float()))


@cases
def test_targets_come_from_the_generator(name: str, arguments: dict[str, Any]) -> None:
    z = embeddings(24, 7)
    one, two = (bound(name, arguments, gallery(), ORDER, seed=1).loss(z) for _ in range(2))
    assert torch.equal(one, two)


@pytest.mark.parametrize("name", ["ca+", "qa+", "tma", "single-target", "multi-target", "triplet"])
def test_another_generator_draws_other_targets(name: str) -> None:
    z = embeddings(24, 7)
    arguments = {"targets": 3} if name == "multi-target" else {}
    one, two = (bound(name, arguments, gallery(), ORDER, seed=seed).loss(z) for seed in (1, 2))
    assert not torch.equal(one, two)


@cases
@pytest.mark.parametrize("method", ["pgd", "apgd"])
def test_attack_reaches_its_goal_a_little(name: str, arguments: dict[str, Any], method: str) -> None:
    model = network()
    images, _ = pictures()
    goal = bound(name, arguments, references(model), ORDER)
    before = attacks.pgd(model, images[ORDER], goal, Budget(eps=0))
    budget = Budget(eps=0.05, steps=6, step=0.01) if method == "pgd" else Budget(eps=0.05, steps=10, method="apgd")
    after = attacks.pgd(model, images[ORDER], goal, budget)
    assert after.loss.mean() < before.loss.mean() - 1e-3
    if method == "apgd":
        assert (after.loss <= before.loss + 1e-6).all()


@cases
@pytest.mark.parametrize("method", ["pgd", "momentum", "apgd"])
def test_batch_equals_parts(name: str, arguments: dict[str, Any], method: str) -> None:
    model = network().double()
    images = pictures()[0].double()[ORDER]
    goal = bound(name, arguments, references(model, torch.float64), ORDER)
    budget = Budget(eps=0.05, steps=5, step=0.015, method=method, start="uniform")  # type: ignore[arg-type]
    whole = attacks.pgd(model, images, goal, budget, generator=seeded(1))
    parts = attacks.pgd(model, images, goal, budget, generator=seeded(1), chunk=3)
    torch.testing.assert_close(whole.images, parts.images, rtol=0, atol=1e-9)
    torch.testing.assert_close(whole.loss, parts.loss)
    torch.testing.assert_close(whole.previous, parts.previous)
    for key, value in whole.measures.items():
        torch.testing.assert_close(value, parts.measures[key])


@cases
def test_queries_outside_the_gallery(name: str, arguments: dict[str, Any]) -> None:
    labels = pictures()[1]
    apart = References(embeddings(24, 8), labels, queries=embeddings(6, 9), query_labels=torch.arange(6))
    if arguments.get("reference") == "joint":
        with pytest.raises(DataError, match="reference: clean"):
            bound(name, arguments, apart, torch.arange(6))
        return
    goal = bound(name, arguments, apart, torch.arange(6))
    z = embeddings(6, 10)
    assert goal.loss(z).isfinite().all()
    assert all(value.isfinite().all() for value in goal.measure(z).values())


@cases
def test_relevance_matrix_says_the_same_as_labels(name: str, arguments: dict[str, Any]) -> None:
    if name == "multi-target":
        pytest.skip("without classes, its targets are different images instead of different classes")
    labels = pictures()[1]
    matrix = References(embeddings(24, 5), labels[:, None] == labels[None, :])
    z = embeddings(24, 11)
    one, two = (bound(name, arguments, known, ORDER) for known in (gallery(), matrix))
    assert torch.equal(one.loss(z), two.loss(z))
    assert all(torch.equal(value, two.measure(z)[key]) for key, value in one.measure(z).items())
