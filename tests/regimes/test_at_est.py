from __future__ import annotations

import copy
from typing import Any

import by_hand
import pytest
import torch
from regime_cases import batch, context, embedder, gradients, unit
from torch import Tensor

from holdfast import regimes
from holdfast.attacks import Budget
from holdfast.errors import DataError, RecipeError
from holdfast.models import Embedder

policies = pytest.mark.parametrize("batchnorm", ["train", "freeze-statistics"])
statistics = pytest.mark.parametrize("statistics", ["eval", "keep"])
BUDGET = Budget(eps=0.03, step=0.01, steps=4)


def check(name: str, arguments: dict[str, Any], model: Embedder, images: Tensor) -> None:
    """A whole step learns from these images, costs what the formula says, and has its gradient."""
    given, twin = batch(), copy.deepcopy(model)
    clean = by_hand.looking(twin, arguments.get("statistics", "eval"))(given.images)
    ctx = context(model)
    seen = by_hand.images_learnt(ctx)
    result = regimes.build(name, **arguments).step(ctx, given)
    assert len(seen) == 1
    torch.testing.assert_close(seen[0], images, rtol=0, atol=1e-12)
    z = unit(twin, images)
    loss = by_hand.triplet_loss(z, by_hand.every_triplet(given.labels), shift=0)
    torch.testing.assert_close(result.loss, loss)
    torch.testing.assert_close(result.encoded.z, z)
    by_hand.close(gradients(model, result.loss), gradients(twin, loss))
    torch.testing.assert_close(result.logs["shift"], (z - clean).norm(dim=1).mean())
    assert not result.logs["shift"].requires_grad
    for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, msg="the one pass that learnt, and no other, is remembered")


@policies
@statistics
def test_at_with_several_steps(batchnorm: str, statistics: str) -> None:
    model, given = embedder(batchnorm), batch()
    look = by_hand.looking(model, statistics)
    clean = look(given.images).detach()
    targets = by_hand.drawn(given.labels, False, by_hand.stage("targets"))

    def loss(z: Tensor, number: int) -> Tensor:
        return torch.stack([(z[i] - clean[t]).norm() for i, t in enumerate(targets)]).sum()

    images = by_hand.moved(look, given.images, loss, 0.03, 0.01, 4)
    check("at", {"budget": BUDGET, "statistics": statistics}, model, images)


@policies
def test_at_by_default_takes_one_step_from_a_random_start_in_normalised_units(batchnorm: str) -> None:
    model, given = embedder(batchnorm), batch()
    model.std.copy_(torch.tensor([0.25, 0.5, 0.75]).view(1, 3, 1, 1))
    look = by_hand.looking(model, "eval")
    clean = look(given.images).detach()
    targets = by_hand.drawn(given.labels, False, by_hand.stage("targets"))

    def loss(z: Tensor, number: int) -> Tensor:
        return torch.stack([(z[i] - clean[t]).norm() for i, t in enumerate(targets)]).sum()

    images = by_hand.moved(look, given.images, loss, 0.005, 0.005, 1, radius=0.00025)
    check("at", {}, model, images)


@policies
@statistics
def test_est(batchnorm: str, statistics: str) -> None:
    model, given = embedder(batchnorm), batch()
    look = by_hand.looking(model, statistics)
    clean = look(given.images).detach()

    def loss(z: Tensor, number: int) -> Tensor:
        return -torch.stack([by_hand.apart(z[i], clean[i]) for i in range(len(z))]).sum()

    images = by_hand.moved(look, given.images, loss, 8 / 255, 1 / 255, 8)
    check("est", {"statistics": statistics}, model, images)


@policies
def test_published_est_shows_batchnorm_the_clean_batch_too(batchnorm: str) -> None:
    """Running statistics take in the clean batch before it is observed, and the moved one after."""
    model, given = embedder(batchnorm), batch()
    twin = copy.deepcopy(model)
    unit(twin, given.images)
    look = by_hand.looking(twin, "eval")
    clean = look(given.images).detach()

    def loss(z: Tensor, number: int) -> Tensor:
        return -torch.stack([by_hand.apart(z[i], clean[i]) for i in range(len(z))]).sum()

    images = by_hand.moved(look, given.images, loss, BUDGET.eps, BUDGET.step_size, BUDGET.steps)
    ctx = context(model)
    seen = by_hand.images_learnt(ctx)
    made = regimes.build("est", budget=BUDGET, variant="published")
    result = made.step(ctx, given)
    assert torch.equal(seen[0], given.images)
    torch.testing.assert_close(seen[1], images, rtol=0, atol=1e-12)
    torch.testing.assert_close(result.encoded.z, unit(twin, images))
    assert ctx.passes == made.passes == BUDGET.steps + 2
    for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)


@statistics
def test_the_first_step_of_est_moves_every_image(statistics: str) -> None:
    model, given = embedder(), batch()
    ctx = context(model)
    seen = by_hand.images_learnt(ctx)
    once = Budget(eps=0.1, step=0.01, steps=1)
    regimes.build("est", budget=once, statistics=statistics).step(ctx, given)
    change = (seen[0] - given.images).abs().flatten(1)
    assert (change.amax(1) > 0.0099).all()
    look = by_hand.looking(model, statistics)
    assert ((look(seen[0]) - look(given.images)).norm(dim=1) > 1e-4).all()


def test_est_is_at_with_the_goal_shift() -> None:
    losses = [
        regimes.build(name, budget=BUDGET, **goal).step(context(embedder()), batch()).loss
        for name, goal in (("est", {}), ("at", {"goal": "shift"}))
    ]
    assert torch.equal(*losses)


@pytest.mark.parametrize(("name", "steps"), [("at", 1), ("at", 4), ("est", 3)])
def test_passes(name: str, steps: int) -> None:
    ctx = context(embedder())
    regimes.build(name, budget=Budget(eps=0.01, steps=steps)).step(ctx, batch())
    assert ctx.passes == steps + 1
    assert ctx.looks == 1


@pytest.mark.parametrize("regime", ["at", "adml"])
@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ("collapse", "regime: act"),
        ("hardness", "regime: hm"),
        ({"name": "sum", "goals": ["shift", {"name": "worst-of", "goals": ["hardness"]}]}, "regime: hm"),
    ],
)
def test_goals_for_groups_are_refused(regime: str, goal: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        regimes.build(regime, goal=goal)


def test_a_batch_that_cannot_serve_the_goal_is_refused() -> None:
    with pytest.raises(DataError, match="two classes"):
        regimes.build("at").step(context(embedder()), batch(classes=1))


def test_a_model_that_does_not_normalise_is_compared_as_it_is() -> None:
    model, given = embedder("freeze-statistics"), batch()
    model.normalize = False
    twin = copy.deepcopy(model).eval()
    clean = twin(given.images).detach()
    assert (clean.norm(dim=1) - 1).abs().min() > 1e-3, "or the test says nothing"

    def loss(z: Tensor, number: int) -> Tensor:
        return -torch.stack([by_hand.apart(z[i], clean[i]) for i in range(len(z))]).sum()

    images = by_hand.moved(twin, given.images, loss, 0.03, 0.01, 4)
    ctx = context(model)
    seen = by_hand.images_learnt(ctx)
    regimes.build("est", budget=BUDGET).step(ctx, given)
    torch.testing.assert_close(seen[0], images, rtol=0, atol=1e-12)
