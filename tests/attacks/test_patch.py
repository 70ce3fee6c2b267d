"""A visible square anywhere in an image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from attack_cases import bound, network, pictures, references, seeded
from torch import Tensor, nn

from holdfast import attacks
from holdfast.attacks.forward import counting
from holdfast.attacks.patch import patch_side
from holdfast.errors import ModelError, RecipeError

ROWS = torch.arange(24)
AREA = 0.15
SIDE = 3  # of 8 × 8 pixels
BOTH: list[tuple[Callable[..., attacks.Attacked], dict[str, Any]]] = [
    (attacks.patch, {"steps": 6}),
    (attacks.patch_search, {"queries": 30}),
]
ways = pytest.mark.parametrize(("attack", "effort"), BOTH, ids=["gradient", "search"])


def loss_of(model: nn.Module, images: Tensor, goal: attacks.BoundGoal) -> Tensor:
    with torch.no_grad():
        return goal.loss(nn.functional.normalize(model.eval()(images), dim=1))


@ways
@pytest.mark.parametrize("name", ["misrank", "hardness", "collapse"])
def test_changes_one_square_and_is_never_kinder_than_a_random_patch(
    attack: Callable[..., attacks.Attacked], effort: dict[str, Any], name: str
) -> None:
    model, images = network(), pictures()[0]
    goal = bound(name, {}, references(model), ROWS)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    found = attack(model, images, goal, area=AREA, generator=seeded(), **effort)
    assert all(part.training for part in model.modules())
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    changed = (found.images != images).any(1)
    for at in changed:
        rows, columns = at.any(1).nonzero(), at.any(0).nonzero()
        assert rows.max() - rows.min() < SIDE
        assert columns.max() - columns.min() < SIDE
    assert found.images.min() >= 0
    assert found.images.max() <= 1
    random, where = attacks.random_patch(images, AREA, seeded())
    assert where.flatten(1).sum(1).eq(SIDE**2).all()
    assert torch.equal(random.masked_fill(where, 0), images.masked_fill(where, 0))
    kinder = loss_of(model, random, goal)
    assert (found.loss <= kinder + 1e-5).all()
    assert found.loss.mean() < kinder.mean() - 1e-2
    torch.testing.assert_close(found.loss, loss_of(model, found.images, goal))


@ways
def test_draws_come_from_the_generator_and_chunks_change_nothing(
    attack: Callable[..., attacks.Attacked], effort: dict[str, Any]
) -> None:
    model, images = network().double(), pictures()[0].double()
    goal = bound("misrank", {}, references(network()), ROWS)
    one, same, other = (attack(model, images, goal, area=AREA, generator=seeded(s), **effort) for s in (1, 1, 2))
    assert torch.equal(one.images, same.images)
    if attack is attacks.patch_search:  # the gradient finds the same, wherever its random patch was
        assert not torch.equal(one.images, other.images)
    parts = attack(model, images, goal, area=AREA, generator=seeded(1), chunk=7, **effort)
    torch.testing.assert_close(one.images, parts.images)


def test_the_place_is_where_the_model_looks() -> None:
    """A model that sees the lower right quarter alone is attacked there."""

    class Corner(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images[:, :, 4:, 4:].flatten(1)

    model, images = Corner(), pictures()[0]
    goal = bound("misrank", {}, references(model), ROWS)
    found = attacks.patch(model, images, goal, area=4 / 64, steps=3, generator=seeded())
    outside = (found.images != images).any(1)
    outside[:, 4:, 4:] = False
    assert not outside.any()


def test_more_area_and_more_steps_do_more() -> None:
    model, images = network(), pictures()[0]
    goal = bound("misrank", {}, references(model), ROWS)

    def mean(**options: Any) -> float:
        return float(attacks.patch(model, images, goal, generator=seeded(), **options).loss.mean())

    assert mean(area=0.3, steps=8) < mean(area=0.05, steps=8)
    assert mean(area=AREA, steps=12) < mean(area=AREA, steps=1)


@ways
def test_stops_where_its_goal_is_reached(attack: Callable[..., attacks.Attacked], effort: dict[str, Any]) -> None:
    model, images = network(), pictures()[0]
    known, passes = references(model), []
    goal = attacks.UntilMissed(bound("misrank", {}, known, ROWS), known, ROWS)
    with counting(lambda count, back: passes.append(count)):
        found = attack(model, images, goal, area=0.9, generator=seeded(), **dict.fromkeys(effort, 40))
    assert (found.loss <= goal.floor).all()
    assert (found.measures["hit"] == 0).all()
    assert len(passes) < 30


def test_a_patch_over_the_whole_image() -> None:
    images = pictures()[0][:2]
    assert patch_side(images, 1.0) == 8
    assert patch_side(images, 1e-9) == 1
    random, where = attacks.random_patch(images, 1.0, seeded())
    assert where.all()
    assert not torch.equal(random, images)


@pytest.mark.parametrize("area", [0.0, 1.5, -1.0])
def test_impossible_areas(area: float) -> None:
    model, images = network(), pictures()[0]
    with pytest.raises(RecipeError, match="area"):
        attacks.patch(model, images, bound("misrank", {}, references(model), ROWS), area=area)


def test_a_model_without_gradients_is_told_apart() -> None:
    model, images = network().eval(), pictures()[0]
    goal = bound("misrank", {}, references(model), ROWS)

    class Deaf(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return model(x.detach())

    with pytest.raises(ModelError, match="gradient"):
        attacks.patch(Deaf(), images, goal)
    before = loss_of(model, images, goal).mean()
    assert attacks.patch_search(Deaf(), images, goal, area=AREA, queries=30, generator=seeded()).loss.mean() < before
