from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import by_hand
import pytest
import torch
from hypothesis import given as over
from hypothesis import settings
from hypothesis import strategies as st
from regime_cases import batch, context, embedder, gradients, unit
from torch import Tensor

from holdfast import regimes
from holdfast.errors import RecipeError, TrainingError
from holdfast.models import Embedder
from holdfast.regimes import Regime, StepContext, StepResult

EPS, STEP = 0.012, 0.008
RATE = 0.002


def free(destination: Any = 2.0, **arguments: Any) -> Regime:
    return regimes.build("free-hm", source="random", destination=destination, eps=EPS, step=STEP, **arguments)


def learn(
    regime: Regime, ctx: StepContext, model: Embedder, rate: float = RATE
) -> tuple[list[StepResult], list[Tensor]]:
    """One batch as training learns it: results and images of every replay, a step of SGD after each."""
    seen, results = by_hand.images_learnt(ctx), []
    for ctx.replay in range(regime.replays):
        result = regime.step(ctx, batch())
        result.loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= rate * parameter.grad
        model.zero_grad(set_to_none=True)
        results.append(result)
    return results, [images.detach() for images in seen]


def rows_by_hand(labels: Tensor) -> list[int]:
    generator = by_hand.stage("source")
    positives = by_hand.drawn(labels, True, generator)
    negatives = by_hand.drawn(labels, False, generator)
    return [row for triplet in zip(range(len(labels)), positives, negatives, strict=True) for row in triplet]


def hardness(z: Tensor) -> list[Tensor]:
    return [by_hand.apart(z[i], z[i + 1]) - by_hand.apart(z[i], z[i + 2]) for i in range(0, len(z), 3)]


def test_every_replay_follows_the_formula() -> None:
    """Images, losses and updates of a whole batch, with a destination that some triplets reach on the way."""
    model, given = embedder("freeze-statistics"), batch()
    twin, wanted = copy.deepcopy(model), 0.1
    results, seen = learn(free(wanted), context(model), model)
    z = by_hand.looking(twin, "eval")(given.images)
    rows = rows_by_hand(given.labels)
    started = [bool(h < wanted) for h in hardness(z[rows])]
    clean = x = given.images[rows]
    arrived = 0
    for result, images in zip(results, seen, strict=True):
        torch.testing.assert_close(images, x, rtol=0, atol=1e-12)
        x = x.detach().requires_grad_()
        reached = hardness(unit(twin, x))
        costs = [torch.relu(h + 0.2) + 0.001 * h for h in reached]
        loss = torch.stack(costs).mean()
        torch.testing.assert_close(result.loss, loss)
        (slope,) = torch.autograd.grad(loss, x, retain_graph=True)
        below = [start and bool(h < wanted) for start, h in zip(started, reached, strict=True)]
        arrived += sum(started) - sum(below)
        stepped = (x.detach() + STEP * slope.sign()).clamp(clean - EPS, clean + EPS).clamp(0, 1)
        x = torch.stack([stepped[i] if below[i // 3] else x[i].detach() for i in range(len(x))])
        for name, tensor in gradients(twin, loss).items():
            dict(twin.named_parameters())[name].data -= RATE * tensor
    assert arrived > 0
    assert any(started)
    assert not all(started)
    for name, tensor in twin.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor, msg=name)


def test_the_first_move_climbs_the_hardness() -> None:
    """Also of triplets within the margin, whose hinge is closed."""
    model, given = embedder("freeze-statistics"), batch()
    twin = copy.deepcopy(model)
    _, seen = learn(free(), context(model, margin=0.0), model)
    clean = given.images[rows_by_hand(given.labels)].requires_grad_()
    reached = hardness(unit(twin, clean))
    assert 0 < sum(bool(h < 0) for h in reached) < len(reached)
    (slope,) = torch.autograd.grad(torch.stack(reached).sum(), clean)
    inside = (clean.detach() + STEP * slope.sign()).clamp(0, 1)
    torch.testing.assert_close(seen[1], inside, rtol=0, atol=1e-12)


@over(st.floats(-0.6, 0.6), st.integers(0, 3), st.sampled_from(["triplet", "multi-similarity"]))
@settings(max_examples=15, deadline=None)
def test_images_stay_in_the_ball_and_hard_triplets_where_they_are(constant: float, seed: int, loss: str) -> None:
    model, given = embedder(seed=seed), batch()
    clean = given.images[rows_by_hand(given.labels)]
    z = by_hand.looking(model, "eval")(clean)
    _, seen = learn(free(constant), context(model, loss), model)
    for images in seen:
        assert (images - clean).abs().max() <= EPS + 1e-12
        assert images.min() >= 0
        assert images.max() <= 1
        for i, h in enumerate(hardness(z)):
            if h > constant + 1e-9:
                assert torch.equal(images[3 * i : 3 * i + 3], clean[3 * i : 3 * i + 3])
    assert torch.equal(seen[0], clean)


def test_other_losses_move_images_along_their_own_gradient() -> None:
    model, given = embedder("freeze-statistics"), batch()
    twin = copy.deepcopy(model)
    ctx = context(model, "multi-similarity")
    _, seen = learn(free(), ctx, model)
    rows = rows_by_hand(given.labels)
    x = given.images[rows].requires_grad_()
    z = unit(twin, x)
    encoded = regimes.base.Encoded(z, z, given.labels[rows])
    loss = context(twin, "multi-similarity").criterion(encoded) + 0.001 * torch.stack(hardness(z)).mean()
    (slope,) = torch.autograd.grad(loss, x)
    torch.testing.assert_close(seen[1], (x.detach() + STEP * slope.sign()).clamp(0, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("replays", [2, 3, 5])
def test_one_pass_per_update(replays: int) -> None:
    model = embedder()
    ctx = context(model)
    results, _ = learn(free(replays=replays), ctx, model)
    assert len(results) == replays
    assert (ctx.passes, ctx.looks) == (replays, 1)


def test_hardness_grows_from_replay_to_replay() -> None:
    """As long as nothing is learnt; a model that learns pushes it back."""
    model = embedder("freeze-statistics")
    results, _ = learn(free(), context(model), model, rate=0.0)
    reached = [float(result.logs["hardness_adversarial"]) for result in results]
    assert reached == sorted(reached)
    assert reached[0] < reached[-1]


def test_the_destination_remembers_the_last_update() -> None:
    model = embedder("freeze-statistics")
    regime, twin = free("lga"), copy.deepcopy(model)
    assert regime.state() == {"previous_loss": 2.0}
    results, _ = learn(regime, context(model), model)
    z = results[-1].encoded.z.detach()
    cost = torch.stack([torch.relu(h + 0.2) for h in hardness(z)]).mean()
    assert regime.state()["previous_loss"] == pytest.approx(float(cost))
    resumed = free("lga")
    resumed.restore(regime.state())
    model.load_state_dict(twin.state_dict())
    _, images = learn(regime, context(model), model)
    _, same = learn(resumed, context(twin), twin)
    assert all(torch.equal(a, b) for a, b in zip(images, same, strict=True))


def test_nothing_outlives_a_batch() -> None:
    model = embedder()
    regime, ctx = free(), context(model)
    results, _ = learn(regime, ctx, model)
    kept = [weakref.ref(result.encoded.z) for result in results]
    assert regime._held is None
    del results
    gc.collect()
    assert all(reference() is None for reference in kept)


def test_a_new_batch_forgets_an_unfinished_one() -> None:
    model = embedder("freeze-statistics")
    twin = copy.deepcopy(model)
    broken, fresh = free(), free()
    ctx = context(model)
    broken.step(ctx, batch(seed=5))
    _, images = learn(broken, ctx, model)
    _, same = learn(fresh, context(twin), twin)
    assert all(torch.equal(a, b) for a, b in zip(images, same, strict=True))


def test_a_replay_needs_the_gradient_of_the_one_before() -> None:
    regime, ctx = free(), context(embedder())
    regime.step(ctx, batch())
    ctx.replay = 1
    with pytest.raises(TrainingError, match=r"call backward\(\) first"):
        regime.step(ctx, batch())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"replays": 1}, "replays must be 2 or more"),
        ({"eps": -0.1}, "eps must be a number of 0 or more"),
        ({"step": -0.1}, "step must be a number of 0 or more"),
        ({"u": 0}, "u must be a number above 0"),
        ({"budget": {"eps": 0.1}}, "unknown key 'budget'"),
    ],
)
def test_impossible_values_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        regimes.build("free-hm", **arguments)
