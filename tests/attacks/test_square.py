"""Random search."""

from __future__ import annotations

import pytest
import torch
from attack_cases import bound, network, pictures, references, seeded
from torch import Tensor, nn

from holdfast import attacks
from holdfast.attacks import Budget
from holdfast.errors import RecipeError

ROWS = torch.arange(24)
BUDGET = Budget(eps=0.05)


@pytest.mark.parametrize("name", ["es", "gtm", "qa+", "hardness", "collapse", "alignment"])
def test_gets_closer_to_its_goal_without_gradients(name: str) -> None:
    model, images = network(), pictures()[0]
    order = torch.randperm(24, generator=seeded(3))
    goal = bound(name, {}, references(model), order)
    model.eval()

    def deaf(x: Tensor) -> Tensor:
        out: Tensor = model(x.detach().clone()).detach()
        return out

    before = attacks.pgd(model, images[order], goal, Budget(eps=0)).loss
    found = attacks.square(deaf, images[order], goal, BUDGET, queries=60, generator=seeded())
    assert (found.loss <= before + 1e-6).all()
    assert found.loss.mean() < before.mean() - 1e-3
    again = goal.loss(nn.functional.normalize(model(found.images), dim=1))
    torch.testing.assert_close(found.loss, again)


def test_stays_in_the_ball_and_gives_the_model_back() -> None:
    model, images = network(), pictures()[0]
    goal = bound("es", {}, references(model), ROWS)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    found = attacks.square(model, images, goal, Budget(eps=8 / 255), queries=30, generator=seeded())
    change = found.images.double() - images.double()
    assert change.abs().max() <= 8 / 255
    assert found.images.min() >= 0
    assert found.images.max() <= 1
    assert all(part.training for part in model.modules())
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())


def test_more_queries_are_never_worse_and_draws_come_from_the_generator() -> None:
    model, images = network(), pictures()[0]
    goal = bound("gtm", {}, references(model), ROWS)
    runs = [attacks.square(model, images, goal, BUDGET, queries=20, generator=seeded(s)).images for s in (1, 1, 2)]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    whole = attacks.square(model.double(), images.double(), goal, BUDGET, queries=20, generator=seeded(1))
    parts = attacks.square(model, images.double(), goal, BUDGET, queries=20, generator=seeded(1), chunk=5)
    torch.testing.assert_close(whole.images, parts.images)


def test_groups_are_kept_or_dropped_whole() -> None:
    """Each triplet is accepted on its own: none may end worse than it began."""
    model, images = network(), pictures()[0]
    goal = bound("hardness", {}, references(model), ROWS)
    before = attacks.pgd(model, images, goal, Budget(eps=0)).loss
    assert (attacks.square(model, images, goal, BUDGET, queries=10, generator=seeded()).loss <= before).all()


def test_stops_at_the_floor() -> None:
    model, images = network(), pictures()[0]
    goal = bound("hardness", {"destination": -3.0}, references(model), ROWS)
    found = attacks.square(model, images, goal, BUDGET, queries=10, generator=seeded())
    assert torch.equal(found.images, images)


def test_refusals() -> None:
    model, images = network(), pictures()[0]
    goal = bound("es", {}, references(model), ROWS)
    with pytest.raises(RecipeError, match="linf"):
        attacks.square(model, images, goal, Budget(eps=0.5, norm="l2"))
    with pytest.raises(RecipeError, match="in_pixels"):
        attacks.square(model, images, goal, Budget(eps=0.5, units="normalized"))
    with pytest.raises(RecipeError, match="queries"):
        attacks.square(model, images, goal, BUDGET, queries=0)
