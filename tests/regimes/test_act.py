from __future__ import annotations

import copy

import by_hand
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from regime_cases import batch, context, embedder, gradients, unit
from torch import Tensor

from holdfast import regimes
from holdfast.attacks import Budget
from holdfast.errors import DataError, RecipeError
from holdfast.losses import build as build_loss
from holdfast.models import Embedder

policies = pytest.mark.parametrize("batchnorm", ["train", "freeze-statistics"])
statistics = pytest.mark.parametrize("statistics", ["eval", "keep"])
BUDGET = Budget(eps=0.03, step=0.01, steps=4)


def triplets_by_hand(labels: Tensor) -> list[tuple[int, int, int]]:
    """What the random miner draws: all positives, then all negatives."""
    generator = by_hand.stage("source")
    positives = by_hand.drawn(labels, True, generator)
    negatives = by_hand.drawn(labels, False, generator)
    return list(zip(range(len(labels)), positives, negatives, strict=True))


def pairs_by_hand(model: Embedder, statistics: str, budget: Budget) -> Tensor:
    """Images p0', n0', p1', n1', ..."""
    data = batch()
    rows = [row for _, p, n in triplets_by_hand(data.labels) for row in (p, n)]

    def loss(z: Tensor, number: int) -> Tensor:
        return torch.stack([by_hand.apart(z[i], z[i + 1]) for i in range(0, len(z), 2)]).sum()

    look = by_hand.looking(model, statistics)
    return by_hand.moved(look, data.images[rows], loss, budget.eps, budget.step_size, budget.steps)


def learnt_by_hand(data: Tensor, pairs: Tensor) -> Tensor:
    """Images a0, p0', n0', a1, ..."""
    return torch.stack([image for i in range(len(data)) for image in (data[i], pairs[2 * i], pairs[2 * i + 1])])


@policies
@statistics
def test_a_whole_step(batchnorm: str, statistics: str) -> None:
    model, data = embedder(batchnorm), batch()
    twin = copy.deepcopy(model)
    images = learnt_by_hand(data.images, pairs_by_hand(model, statistics, BUDGET))
    clean = by_hand.looking(model, statistics)(data.images)
    ctx = context(model)
    seen = by_hand.images_learnt(ctx)
    result = regimes.build("act", budget=BUDGET, statistics=statistics).step(ctx, data)
    assert len(seen) == 1, "clean anchors and moved images learn in one pass"
    torch.testing.assert_close(seen[0], images, rtol=0, atol=1e-12)
    z = unit(twin, images)
    loss = by_hand.triplet_loss(z, [(i, i + 1, i + 2) for i in range(0, len(z), 3)])
    torch.testing.assert_close(result.loss, loss)
    by_hand.close(gradients(model, result.loss), gradients(twin, loss))
    before = [(clean[p] - clean[n]).norm() for _, p, n in triplets_by_hand(data.labels)]
    torch.testing.assert_close(result.logs["distance_clean"], torch.stack(before).mean())
    torch.testing.assert_close(result.logs["distance_adversarial"], (z[1::3] - z[2::3]).norm(dim=1).mean())
    for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, msg="the one pass that learnt, and no other, is remembered")


@settings(max_examples=20, deadline=None)
@given(eps=st.floats(0.001, 0.5), steps=st.integers(1, 3), start=st.sampled_from(["zero", "uniform"]))
def test_anchors_stay_and_all_others_move(eps: float, steps: int, start: str) -> None:
    data = batch()
    ctx = context(embedder())
    seen = by_hand.images_learnt(ctx)
    regimes.build("act", budget={"eps": eps, "steps": steps, "start": start}).step(ctx, data)
    assert torch.equal(seen[0][0::3], data.images)
    assert ((seen[0] >= 0) & (seen[0] <= 1)).all()
    for slot in (1, 2):
        chosen = [triplet[slot] for triplet in triplets_by_hand(data.labels)]
        change = (seen[0][slot::3] - data.images[chosen]).abs().flatten(1).amax(1)
        assert (change > 0).all()
        assert (change <= eps + 1e-15).all()


@statistics
def test_positives_and_negatives_come_nearer(statistics: str) -> None:
    model = embedder("freeze-statistics")
    logs = regimes.build("act", statistics=statistics).step(context(model), batch()).logs
    assert logs["distance_adversarial"] < logs["distance_clean"]


@policies
def test_other_losses_learn_on_the_same_images_with_their_labels(batchnorm: str) -> None:
    model, data = embedder(batchnorm), batch()
    twin = copy.deepcopy(model)
    images = learnt_by_hand(data.images, pairs_by_hand(model, "eval", BUDGET))
    rows = [row for triplet in triplets_by_hand(data.labels) for row in triplet]
    result = regimes.build("act", budget=BUDGET).step(context(model, "multi-similarity"), data)
    loss = build_loss("multi-similarity")(unit(twin, images), data.labels[rows])
    torch.testing.assert_close(result.loss, loss)
    by_hand.close(gradients(model, result.loss), gradients(twin, loss))


def test_the_source_decides_which_triplets_move() -> None:
    model, data = embedder("freeze-statistics"), batch()
    ctx = context(model)
    seen = by_hand.images_learnt(ctx)
    regimes.build("act", source="ephn", budget=Budget(eps=0.0, steps=1)).step(ctx, data)
    z = by_hand.looking(model, "eval")(data.images).detach()
    for i, (positive, negative) in enumerate(zip(seen[0][1::3], seen[0][2::3], strict=True)):
        apart = (z - z[i]).norm(dim=1).tolist()
        for image, same in ((positive, True), (negative, False)):
            nearest = min(by_hand.others(data.labels, i, same), key=apart.__getitem__)
            assert torch.equal(image, data.images[nearest])


@pytest.mark.parametrize("steps", [1, 5])
def test_passes(steps: int) -> None:
    ctx = context(embedder())
    regimes.build("act", budget=Budget(eps=0.01, steps=steps)).step(ctx, batch())
    assert ctx.passes == steps + 1
    assert ctx.looks == 1


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"regime\.source: MultiSimilarityMiner mines pairs"):
        regimes.build("act", source="multi-similarity")
    with pytest.raises(DataError, match="two classes with two images"):
        regimes.build("act").step(context(embedder()), batch(classes=5, per_class=1))
