from __future__ import annotations

import copy
from collections.abc import Callable

import by_hand
import pytest
import torch
from regime_cases import batch, context, embedder, gradients, unit
from torch import Tensor

from holdfast import regimes
from holdfast.attacks import Budget
from holdfast.config import resolve
from holdfast.errors import RecipeError

policies = pytest.mark.parametrize("batchnorm", ["train", "freeze-statistics"])
statistics = pytest.mark.parametrize("statistics", ["eval", "keep"])
BUDGET = Budget(eps=0.03, step=0.01, steps=4)
GOALS = ["triplet", "alignment", "uniformity", "alignment-uniformity"]


def objective(goal: str, reference: str, clean: Tensor, labels: Tensor) -> Callable[[Tensor, int], Tensor]:
    """Minus what the goal maximises, image by image, against clean embeddings or the moved ones."""
    generator = by_hand.stage("targets")
    near = by_hand.drawn(labels, True, generator)
    far = by_hand.drawn(labels, False, generator)

    def loss(z: Tensor, number: int) -> Tensor:
        against = clean if reference == "clean" else z
        gains = []
        for i in range(len(z)):

            def squared(j: int, i: int = i) -> Tensor:
                return ((z[i] - against[j]) ** 2).sum()

            if goal == "triplet":
                gains.append(squared(near[i]) - squared(far[i]))
            if goal.startswith("alignment"):
                gains.append(torch.stack([squared(j) for j in by_hand.others(labels, i, True)]).mean())
            if goal.endswith("uniformity"):
                gains.append(torch.stack([(-squared(j)).exp() for j in by_hand.others(labels, i, False)]).mean())
        return -torch.stack(gains).sum()

    return loss


@policies
@statistics
@pytest.mark.parametrize("reference", ["clean", "joint"])
@pytest.mark.parametrize("goal", GOALS)
def test_a_whole_step(goal: str, reference: str, batchnorm: str, statistics: str) -> None:
    model, given = embedder(batchnorm), batch()
    twin = copy.deepcopy(model)
    look = by_hand.looking(model, statistics)
    loss = objective(goal, reference, look(given.images).detach(), given.labels)
    images = by_hand.moved(look, given.images, loss, 0.03, 0.01, 4)
    ctx = context(model)
    seen = by_hand.images_learnt(ctx)
    result = regimes.build(
        "adml", goal={"name": goal, "reference": reference}, weight=0.3, budget=BUDGET, statistics=statistics
    ).step(ctx, given)
    assert torch.equal(seen[0], given.images)
    torch.testing.assert_close(seen[1], images, rtol=0, atol=1e-12)
    assert len(seen) == 2
    every = by_hand.every_triplet(given.labels)
    z, moved = unit(twin, given.images), unit(twin, images)
    terms = {name: by_hand.triplet_loss(v, every, shift=0) for name, v in (("clean", z), ("adversarial", moved))}
    total = terms["clean"] + 0.3 * terms["adversarial"]
    torch.testing.assert_close(result.terms, terms)
    torch.testing.assert_close(result.loss, total)
    torch.testing.assert_close(result.logs["shift"], (z - moved).norm(dim=1).mean())
    by_hand.close(gradients(model, result.loss), gradients(twin, total))
    for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, msg="the two passes that learnt, and no other, are remembered")


@policies
@pytest.mark.parametrize("loss", ["triplet", "multi-similarity", "gradient"])
def test_a_weight_of_zero_has_the_gradients_of_plain_training(batchnorm: str, loss: str) -> None:
    found, buffers = [], []
    for name, arguments in (("standard", {}), ("adml", {"weight": 0.0})):
        model = embedder(batchnorm)
        result = regimes.build(name, **arguments).step(context(model, loss), batch())
        found.append((result.loss, gradients(model, result.loss)))
        buffers.append(dict(model.named_buffers()))
    (plain, slopes), (mine, mine_slopes) = found
    assert torch.equal(plain, mine)
    assert all(torch.equal(slopes[name], mine_slopes[name]) for name in slopes)
    assert any(slope.abs().max() > 0 for slope in slopes.values())
    differ = {name.rpartition(".")[2] for name, value in buffers[0].items() if not torch.equal(value, buffers[1][name])}
    statistics = {"running_mean", "running_var", "num_batches_tracked"}
    assert differ == (statistics if batchnorm == "train" else set()), "statistics in training see the moved images"


def test_each_loss_mines_for_itself() -> None:
    still = Budget(eps=0.0, steps=1)
    for loss, same in (({}, True), ({"miner": "random"}, False)):
        ctx = context(embedder("freeze-statistics"), "triplet", **loss)
        terms = regimes.build("adml", budget=still).step(ctx, batch()).terms
        assert torch.equal(terms["clean"], terms["adversarial"]) is same


def test_the_recipe_says_what_the_default_goal_is() -> None:
    plain = resolve(regimes.Regime, "adml")
    assert plain["goal"] == {"name": "alignment", "reference": "joint"}
    named = regimes.build("adml", goal=plain["goal"]).step(context(embedder()), batch())
    assert torch.equal(named.loss, regimes.build("adml").step(context(embedder()), batch()).loss)


@pytest.mark.parametrize("steps", [1, 5])
def test_passes(steps: int) -> None:
    ctx = context(embedder())
    regimes.build("adml", budget=Budget(eps=0.01, steps=steps)).step(ctx, batch())
    assert ctx.passes == steps + 2
    assert ctx.looks == 1


@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_impossible_weights_are_refused(weight: float) -> None:
    with pytest.raises(RecipeError, match="weight"):
        regimes.build("adml", weight=weight)
