"""CA-TRIDE against loops written from the formulas of its released code."""

from __future__ import annotations

import copy
import math

import by_hand
import pytest
import torch
from accelerate import Accelerator
from regime_cases import batch, embedder, gradients, unit
from torch import Tensor

from holdfast import regimes, seeds
from holdfast.attacks import Budget
from holdfast.errors import DataError, RecipeError
from holdfast.losses import Criterion
from holdfast.losses import build as build_loss
from holdfast.mining import SemiHard
from holdfast.models import Embedder
from holdfast.regimes import StepContext

policies = pytest.mark.parametrize("batchnorm", ["train", "freeze-statistics"])
statistics = pytest.mark.parametrize("statistics", ["eval", "keep"])
steps = pytest.mark.parametrize("step", [4, 5])
TOTAL = 8
BUDGET = Budget(eps=1 / 32, step=1 / 64, steps=4)
"""Powers of two: the share of training is kept in single precision."""
SHARPNESS = 3.0


def context(model: Embedder, step: int, loss: str = "triplet", total: int | None = TOTAL) -> StepContext:
    criterion = Criterion(build_loss(loss)).double()
    made = StepContext(model, criterion, Accelerator(cpu=True), 0, total=total)
    made.start(step)
    return made


def triplets_by_hand(z: Tensor, labels: Tensor, step: int, margin: float) -> list[tuple[int, int, int]]:
    """Any positive, then a negative a little farther, as the miner draws them."""
    generator = seeds.generator(0, step, "source")
    positives = by_hand.drawn(labels, True, generator)
    numbers = torch.rand(len(labels), generator=generator).tolist()
    found = []
    for a, (p, number) in enumerate(zip(positives, numbers, strict=True)):
        far = by_hand.others(labels, a, False)
        near = (z[a] - z[p]).norm()
        band = [n for n in far if near < (z[a] - z[n]).norm() < near + margin] or far
        found.append((a, p, band[int(number * len(band))]))
    return found


def collapse(distances: list[Tensor]) -> Tensor:
    weights = [torch.exp(SHARPNESS * (d - max(x.item() for x in distances))) for d in distances]
    return sum(w * d for w, d in zip(weights, distances, strict=True)) / sum(weights)  # type: ignore[return-value]


def nearer(distances: list[Tensor]) -> Tensor:
    kept = sorted(distances, key=Tensor.item)[: len(distances) // 2]
    return sum(kept) / len(kept)  # type: ignore[return-value]


def goal_by_hand(step: int, z: Tensor, clean: Tensor, triplets: list[tuple[int, int, int]]) -> Tensor:
    """What the attack of a step minimises, given what the attacked images are embedded to."""
    count = len(triplets)
    if step % 2 == 0:
        near = [by_hand.apart(clean[a], z[i]) for i, (a, _, _) in enumerate(triplets)]
        far = [by_hand.apart(clean[a], z[count + i]) for i, (a, _, _) in enumerate(triplets)]
        return torch.relu(collapse(far) - collapse(near))
    near = [by_hand.apart(z[i], clean[p]) for i, (_, p, _) in enumerate(triplets)]
    far = [by_hand.apart(z[i], clean[n]) for i, (_, _, n) in enumerate(triplets)]
    shift = [by_hand.apart(z[i], clean[a]) for i, (a, _, _) in enumerate(triplets)]
    gap = collapse(near) - collapse(far)
    weight = math.exp(-max(0.0, -gap.item()))
    return torch.relu(gap) + weight * torch.relu(nearer(far) - sum(shift) / count)


def learnt_by_hand(
    model: Embedder, step: int, how: str, progress: float
) -> tuple[Tensor, list[tuple[int, int, int]], Tensor]:
    """Images a0, a1, ..., p0, ..., n0, ..., some of them attacked; the triplets; clean embeddings."""
    data, look = batch(), by_hand.looking(model, how)
    clean = look(data.images).detach()
    triplets = triplets_by_hand(clean, data.labels, step, 0.2 * (1 - progress / 2) ** 2)
    anchors, positives, negatives = (data.images[[t[k] for t in triplets]] for k in range(3))
    candidates = torch.cat((positives, negatives))
    attacked = candidates if step % 2 == 0 else anchors

    def loss(z: Tensor, number: int) -> Tensor:
        return goal_by_hand(step, z, clean, triplets)

    moved = by_hand.moved(look, attacked, loss, BUDGET.eps, BUDGET.step_size * progress, BUDGET.steps)
    return torch.cat((anchors, moved) if step % 2 == 0 else (moved, candidates)), triplets, clean


@policies
@statistics
@steps
def test_a_whole_step(batchnorm: str, statistics: str, step: int) -> None:
    model, data = embedder(batchnorm), batch()
    twin = copy.deepcopy(model)
    images, triplets, clean = learnt_by_hand(model, step, statistics, step / TOTAL)
    ctx = context(model, step)
    seen = by_hand.images_learnt(ctx)
    regime = regimes.build("tride", sharpness=SHARPNESS, near_margin=0.5, budget=BUDGET, statistics=statistics)
    result = regime.step(ctx, data)
    assert len(seen) == 1, "clean and attacked images learn in one pass"
    tolerance = 1e-7 * BUDGET.eps if step % 2 else 1e-12  # 5/8 of a step is rounded to single precision
    torch.testing.assert_close(seen[0], images, rtol=0, atol=tolerance)
    z, count = unit(twin, seen[0]), len(triplets)
    loss = by_hand.triplet_loss(z, [(i, count + i, 2 * count + i) for i in range(count)])
    near = [by_hand.apart(z[i], z[count + i]) for i in range(count)]
    far = [by_hand.apart(z[i], z[2 * count + i]) for i in range(count)]
    extra = 0.5 * torch.relu(nearer(near) - nearer(far) + 0.5)
    assert extra > 0
    torch.testing.assert_close(result.terms, {"triplet": loss, "near": extra})
    torch.testing.assert_close(result.loss, loss + extra)
    by_hand.close(gradients(model, result.loss), gradients(twin, loss + extra))
    before = [(clean[a] - clean[p]).norm() - (clean[a] - clean[n]).norm() for a, p, n in triplets]
    expected = {
        "hardness_source": sum(before) / count,
        "hardness_adversarial": (sum(near) - sum(far)) / count,
        "collapseness": collapse(near) - collapse(far),
    }
    for name, value in expected.items():
        torch.testing.assert_close(result.logs[name], value.detach(), rtol=0, atol=1e-5)
    for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, msg="the one pass that learnt, and no other, is remembered")


def test_candidates_and_anchors_take_turns() -> None:
    data = batch()
    for step in range(1, 7):
        ctx = context(embedder(), step)
        seen = by_hand.images_learnt(ctx)
        regimes.build("tride", budget=BUDGET).step(ctx, data)
        anchors, candidates = seen[0].split([len(data.images), 2 * len(data.images)])
        assert torch.equal(anchors, data.images) == (step % 2 == 0)
        same = [any(torch.equal(image, other) for other in data.images) for image in candidates]
        assert not any(same) if step % 2 == 0 else all(same)
        assert regimes.build("tride").phase(step, 10) == step % 2


@pytest.mark.parametrize(("step", "share"), [(0, 0.0), (2, 0.25), (4, 0.5), (6, 0.75)])
def test_a_step_of_the_attack_grows_with_the_share_of_training_done(step: int, share: float) -> None:
    ctx = context(embedder(), step)
    assert float(ctx.progress) == share
    seen = by_hand.images_learnt(ctx)
    data = batch()
    one = Budget(eps=1.0, step=1 / 1024, steps=1)
    regimes.build("tride", budget=one).step(ctx, data)
    candidates = seen[0][len(data.images) :]
    change = (candidates[:, None] - data.images[None]).abs().flatten(2).amax(2).amin(1)
    torch.testing.assert_close(change, torch.full_like(change, share / 1024))


def test_a_context_that_knows_no_end_is_at_the_end() -> None:
    ctx = context(embedder(), 5, total=None)
    ctx.start(6)
    assert float(ctx.progress) == 1


@pytest.mark.parametrize(("progress", "margin"), [(0.0, 0.2), (0.5, 0.2 * 0.75**2), (1.0, 0.05)])
def test_the_band_of_semi_hard_negatives_becomes_narrower(progress: float, margin: float) -> None:
    regime = regimes.CollapseAwareTriplets()
    narrowed = regime._miner(torch.tensor(progress))
    assert isinstance(narrowed, SemiHard)
    assert float(narrowed.margin) == pytest.approx(margin)
    assert regime.source.margin == 0.2, "that of the recipe stays"
    assert regimes.CollapseAwareTriplets("random")._miner(torch.tensor(progress)) == regimes.build("act").source


def test_attacks_stop_where_both_are_equally_collapsed() -> None:
    """Far candidates and near negatives need no attack."""
    model, data = embedder("freeze-statistics"), batch()
    ctx = context(model, 4)
    regime = regimes.build("tride", source="hardest", sharpness=0.0, budget=BUDGET)
    seen = by_hand.images_learnt(ctx)
    regime.step(ctx, data)
    assert ctx.passes == 2
    assert all(any(torch.equal(image, other) for other in data.images) for image in seen[0])


@pytest.mark.parametrize("near", [0.0, 0.5])
def test_other_losses_learn_on_the_same_images_with_their_labels(near: float) -> None:
    model, data = embedder("freeze-statistics"), batch()
    twin = copy.deepcopy(model)
    ctx = context(model, 4, "multi-similarity")
    seen = by_hand.images_learnt(ctx)
    result = regimes.build("tride", budget=BUDGET, near=near).step(ctx, data)
    loss = build_loss("multi-similarity")(unit(twin, seen[0]), result.encoded.labels)
    torch.testing.assert_close(result.terms["triplet"] if near else result.loss, loss)
    assert (result.encoded.labels[: len(data.labels)] == data.labels).all()


@steps
def test_passes(step: int) -> None:
    ctx = context(embedder(), step)
    regimes.build("tride", budget=Budget(eps=0.01, steps=5)).step(ctx, batch())
    assert ctx.passes == regimes.build("tride", budget=Budget(eps=0.01, steps=5)).passes == 6
    assert ctx.looks == 1


def test_defaults_are_those_of_the_released_code() -> None:
    regime = regimes.CollapseAwareTriplets()
    assert regime.budget == Budget(eps=8 / 255, step=1 / 255, steps=16)
    assert (regime.sharpness, regime.near, regime.near_margin) == (10.0, 0.5, 0.04)


def test_the_caption_is_short() -> None:
    line = {"hardness_source": -0.123, "hardness_adversarial": 0.04, "collapseness": -0.2}
    assert regimes.build("tride").caption(line) == "H -0.12 → 0.04  C_p - C_n -0.20"


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"regime\.source: MultiSimilarityMiner mines pairs"):
        regimes.build("tride", source="multi-similarity")
    for name in ("sharpness", "near", "near_margin"):
        with pytest.raises(RecipeError, match=rf"regime\.{name}"):
            regimes.build("tride", **{name: -1.0})
    with pytest.raises(DataError, match="two classes with two images"):
        regimes.build("tride").step(context(embedder(), 0), batch(classes=5, per_class=1))
