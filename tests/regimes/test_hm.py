from __future__ import annotations

import copy
from typing import Any

import by_hand
import pytest
import torch
from hm_by_hand import BUDGET, apart, climbed, drawn_triplets, hard
from hypothesis import given as over
from hypothesis import settings
from hypothesis import strategies as st
from regime_cases import batch, context, embedder, gradients, train_a_few, unit
from torch import Tensor

from holdfast import mining, regimes
from holdfast.attacks import Budget
from holdfast.errors import DataError, RecipeError
from holdfast.losses import build as build_loss
from holdfast.models import Embedder
from holdfast.regimes import StepResult

policies = pytest.mark.parametrize("batchnorm", ["train", "freeze-statistics"])
statistics = pytest.mark.parametrize("statistics", ["eval", "keep"])
PREVIOUS = 0.05
"""The remembered loss in these tests: between nothing and u, so that no destination is at an end of its range."""

ICS_MARGIN = 1.0
"""Large, so that the hinge of the structure term is open for some triplets and closed for others."""

DESTINATIONS: list[Any] = [
    0.05,
    2.0,
    "hardest",
    "lga",
    "g-2",
    "g-half",
    {"name": "g-b", "of": "semihard", "xi": 0.3},
    {"name": "g-b", "of": 0.0},
]


def wanted_by_hand(destination: Any, z: Tensor, labels: Tensor) -> list[float]:
    """H_D of each anchor, every image being one."""
    progress = min(0.2, PREVIOUS) / 0.2
    formulas = {"lga": -0.2 * progress, "g-2": -0.2 * progress**2, "g-half": -0.2 * progress**0.5}
    if isinstance(destination, dict):
        below = wanted_by_hand(destination["of"], z, labels)
        return [value + destination.get("xi", 0.1) * (1 - progress) for value in below]
    if destination in formulas or isinstance(destination, float):
        return [formulas.get(destination, destination)] * len(z)
    found = mining.build(destination)(z, labels, by_hand.stage("destination"))
    return [float(hard(z, (int(a), int(p), int(n)))) for a, p, n in zip(*found, strict=True)]


def moved_by_hand(model: Embedder, destination: Any, statistics: str) -> tuple[Tensor, list[bool]]:
    """Images a0', p0', n0', a1', ... and which triplets had to move."""
    given = batch()
    triplets = drawn_triplets(given.labels)
    look = by_hand.looking(model, statistics)
    z = look(given.images).detach()
    wanted = wanted_by_hand(destination, z, given.labels)
    short = [float(hard(z, t)) < h for t, h in zip(triplets, wanted, strict=True)]

    return climbed(look, given.images, triplets, wanted, short), short


def regime(destination: Any, **arguments: Any) -> regimes.Regime:
    made = regimes.build("hm", **{"source": "random", "destination": destination, "budget": BUDGET, **arguments})
    if made.state():
        made.restore({"previous_loss": PREVIOUS})
    return made


def taken(model: Embedder, made: regimes.Regime, loss: str = "triplet") -> tuple[StepResult, Tensor]:
    """The result of a step and the images it learnt from."""
    ctx = context(model, loss)
    seen = by_hand.images_learnt(ctx)
    result = made.step(ctx, batch())
    assert len(seen) == 1, "one pass learns"
    return result, seen[0]


@pytest.mark.parametrize("destination", DESTINATIONS, ids=str)
@pytest.mark.parametrize("ics", [0.0, 0.5])
def test_a_whole_step(destination: Any, ics: float) -> None:
    model, given = embedder(), batch()
    twin = copy.deepcopy(model)
    images, short = moved_by_hand(model, destination, "eval")
    assert any(short)
    made = regime(destination, ics=ics, ics_margin=ICS_MARGIN if ics else 0.0)
    result, seen = taken(model, made)
    rows = torch.cat((images, given.images)) if ics else images
    torch.testing.assert_close(seen, rows, rtol=0, atol=1e-12)
    z = unit(twin, rows)
    places = [(i, i + 1, i + 2) for i in range(0, len(images), 3)]
    loss = triplet = by_hand.triplet_loss(z, places)
    if ics:
        first = len(images)
        near = [
            torch.relu(apart(z, first + a, slot) - apart(z, first + a, first + p) + ICS_MARGIN)
            for (a, p, _), (slot, _, _) in zip(drawn_triplets(given.labels), places, strict=True)
        ]
        assert 0 < sum(bool(cost > 0) for cost in near) < len(near)
        structure = ics * torch.stack(near).mean()
        loss = triplet + structure
        torch.testing.assert_close(result.terms, {"triplet": triplet, "ics": structure})
    torch.testing.assert_close(result.loss, loss)
    by_hand.close(gradients(model, result.loss), gradients(twin, loss))
    if made.state():
        assert made.state()["previous_loss"] == pytest.approx(float(triplet.detach()))
    assert float(result.logs["moved"]) == pytest.approx(sum(short) / len(short))
    hardness = torch.stack([hard(z, place) for place in places]).mean().detach()
    torch.testing.assert_close(result.logs["hardness_adversarial"], hardness)


@policies
@statistics
@pytest.mark.parametrize("loss", ["triplet", "margin", "multi-similarity"])
def test_losses_and_batchnorm_policies(batchnorm: str, statistics: str, loss: str) -> None:
    model, given = embedder(batchnorm), batch()
    twin = copy.deepcopy(model)
    images, _ = moved_by_hand(model, 0.1, statistics)
    result, seen = taken(model, regime(0.1, statistics=statistics), loss)
    torch.testing.assert_close(seen, images, rtol=0, atol=1e-12)
    triplets = drawn_triplets(given.labels)
    labels = given.labels[[row for triplet in triplets for row in triplet]]
    places = torch.arange(len(images)).view(-1, 3).unbind(1)
    criterion = build_loss(loss).double()
    tuples = None if loss == "multi-similarity" else mining.Triplets(*places)
    cost = criterion(unit(twin, images), labels, tuples)
    torch.testing.assert_close(result.loss, cost)
    by_hand.close(gradients(model, result.loss), gradients(twin, cost))


def test_structure_is_no_part_of_a_loss_on_labels() -> None:
    model = embedder("freeze-statistics")
    plain, _ = taken(copy.deepcopy(model), regime(0.1), "multi-similarity")
    both, _ = taken(model, regime(0.1, ics=0.5), "multi-similarity")
    torch.testing.assert_close(both.terms["triplet"], plain.loss)
    assert both.encoded.z.shape == plain.encoded.z.shape


@pytest.mark.parametrize("miner", ["random", "softhard", "semihard", "hardest", "distance"])
@pytest.mark.parametrize("destination", ["itself", "boosted by nothing"])
@statistics
def test_the_source_as_destination_is_plain_training(miner: str, destination: str, statistics: str) -> None:
    model, given = embedder(), batch()
    twin = copy.deepcopy(model)
    wanted = miner if destination == "itself" else {"name": "g-b", "of": miner}  # a loss of 2: the boost is zero
    made = regimes.build("hm", source=miner, destination=wanted, budget=BUDGET, statistics=statistics)
    result, seen = taken(model, made)
    z = by_hand.looking(twin, statistics)(given.images)
    triplets = mining.build(miner)(z, given.labels, by_hand.stage("source"))
    rows = torch.stack(triplets, 1).flatten()
    assert torch.equal(seen, given.images[rows])
    ctx = context(twin)
    encoded = ctx.encode(given.images[rows], given.labels[rows])
    loss = ctx.criterion(encoded, mining.Triplets(*torch.arange(len(rows)).view(-1, 3).unbind(1)))
    assert torch.equal(result.loss, loss)
    plain = gradients(twin, loss)
    assert all(torch.equal(value, plain[name]) for name, value in gradients(model, result.loss).items())


def test_source_and_destination_draw_independently() -> None:
    """Both uniform in pools of the same hardness, so half of the triplets are short of their destination."""
    model, moved = embedder(), []
    for seed in range(60):
        ctx = context(model, seed=seed)
        other = {"name": "semihard", "margin": 1e-9}  # no band, so any negative: `random` under another name
        step = regimes.build("hm", source="random", destination=other, budget=Budget(eps=0)).step(ctx, batch())
        moved.append(float(step.logs["moved"]))
    assert sum(moved) / len(moved) == pytest.approx(0.5 * (1 - 1 / 18), abs=0.06)  # 1 / 18: the same triplet again


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("method", ["pgd", "momentum"])
def test_a_destination_of_2_is_min_max(norm: Any, method: Any) -> None:
    budget = Budget(eps=0.1, step=0.03, steps=4, norm=norm, method=method)
    model = embedder()
    first, images = taken(copy.deepcopy(model), regime(2.0, budget=budget))
    second, same = taken(model, regimes.build("min-max", source="random", budget=budget))
    assert torch.equal(images, same)
    assert torch.equal(first.loss, second.loss)


def test_min_max_climbs_the_hardness_itself() -> None:
    model, given = embedder(), batch()
    rows = [row for triplet in drawn_triplets(given.labels) for row in triplet]

    def loss(z: Tensor, number: int) -> Tensor:
        return -torch.stack([hard(z, (i, i + 1, i + 2)) for i in range(0, len(z), 3)]).sum()

    look = by_hand.looking(model, "eval")
    images = by_hand.moved(look, given.images[rows], loss, BUDGET.eps, BUDGET.step_size, BUDGET.steps)
    _, seen = taken(model, regimes.build("min-max", source="random", budget=BUDGET))
    torch.testing.assert_close(seen, images, rtol=0, atol=1e-12)


@pytest.mark.parametrize("destination", [-0.1, 0.1, "hardest"])
def test_a_step_goes_where_the_hardness_grows(destination: Any) -> None:
    """Equations 4 and 5: how far away the destination is does not change the direction."""
    model, given = embedder(), batch()
    rows = [row for triplet in drawn_triplets(given.labels) for row in triplet]
    clean = given.images[rows].requires_grad_()
    z = by_hand.looking(model, "eval")(clean)
    (slope,) = torch.autograd.grad(torch.stack([hard(z, (i, i + 1, i + 2)) for i in range(0, len(z), 3)]).sum(), clean)
    _, short = moved_by_hand(model, destination, "eval")
    _, seen = taken(model, regime(destination, budget=Budget(eps=0.002, step=0.002, steps=1)))
    climbed = (clean.detach() + 0.002 * slope.sign()).clamp(0, 1)
    expected = torch.stack([climbed[i] if short[i // 3] else clean[i].detach() for i in range(len(clean))])
    torch.testing.assert_close(seen, expected, rtol=0, atol=1e-12)


@over(st.floats(-0.6, 0.6), st.integers(0, 4), st.sampled_from(["eval", "keep"]))
@settings(max_examples=15, deadline=None)
def test_triplets_hard_enough_stay_untouched(constant: float, seed: int, statistics: str) -> None:
    model, given = embedder(seed=seed), batch()
    look = by_hand.looking(model, statistics)
    triplets = drawn_triplets(given.labels)
    result, seen = taken(model, regime(constant, statistics=statistics))
    z = look(given.images).detach()
    for i, triplet in enumerate(triplets):
        slots, clean = seen[3 * i : 3 * i + 3], given.images[list(triplet)]
        if hard(z, triplet) >= constant:
            assert torch.equal(slots, clean)
        elif statistics == "eval":  # with batch statistics the slots may be hard enough once they are laid out
            assert not torch.equal(slots, clean)
        assert (slots - clean).abs().max() <= BUDGET.eps + 1e-12
    assert torch.isfinite(result.loss)


@pytest.mark.parametrize(("destination", "passes"), [(2.0, BUDGET.steps + 1), (-2.0, 2)])
def test_passes_are_counted_and_stop_when_nothing_is_left_to_move(destination: float, passes: int) -> None:
    ctx = context(embedder())
    regime(destination).step(ctx, batch())
    assert (ctx.passes, ctx.looks) == (passes, 1)


def test_triplets_that_arrive_stop_the_attack_early() -> None:
    ctx = context(embedder())
    regime(-0.1, budget=Budget(eps=0.05, step=0.01, steps=40)).step(ctx, batch())
    assert 2 < ctx.passes < 41


@pytest.mark.parametrize("destination", ["lga", "g-2", "g-half", "g-b"])
def test_a_resumed_regime_takes_the_same_next_step(destination: str) -> None:
    model = embedder()
    first = regimes.build("hm", destination=destination, budget=BUDGET)
    assert first.state() == {"previous_loss": 2.0}
    train_a_few(first, context(model), model)
    resumed = regimes.build("hm", destination=destination, budget=BUDGET)
    resumed.restore(first.state())
    assert 0 < resumed.state()["previous_loss"] < 2
    before, images = taken(copy.deepcopy(model), first)
    after, same = taken(model, resumed)
    assert torch.equal(images, same)
    assert torch.equal(before.loss, after.loss)
    assert first.state() == resumed.state()


@policies
@statistics
def test_crafting_leaves_the_model_as_it_was(batchnorm: str, statistics: str) -> None:
    model, given = embedder(batchnorm), batch()
    twin = copy.deepcopy(model)
    _, seen = taken(model, regime(0.1, ics=0.5, statistics=statistics))
    twin(seen)  # what the one pass that learns does to the running statistics, and no more
    assert len(seen) == 4 * len(given.labels)
    for name, tensor in twin.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name
    assert model.training
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", ["hm", "min-max"])
def test_it_says_what_it_does(name: str) -> None:
    result, _ = taken(embedder(), regimes.build(name, source="random", budget=BUDGET))
    line = {key: float(value) for key, value in result.logs.items()}
    assert regimes.build(name).caption(line).startswith("H ")
    assert not result.terms


def test_the_caption_is_short_and_exact() -> None:
    keys = ("hardness_source", "hardness_adversarial", "hardness_destination", "moved")
    for values, words in (
        ((-0.254, -0.06, -0.17, 0.409), "H -.25→-.06/-.17  41 %"),
        ((-0.001, 1.204, 2.0, 1.0), "H .00→1.20/2.00  100 %"),
        ((0.5, -1.05, -2.0, 0.0), "H .50→-1.05/-2.00  0 %"),
    ):
        assert regimes.build("hm").caption(dict(zip(keys, values, strict=True))) == words


@pytest.mark.parametrize("destination", ["lga", {"name": "g-b", "of": 0.0}], ids=str)
def test_each_mining_group_remembers_the_step_before(destination: Any) -> None:
    """The second part of a batch does not see what the first part of the same step came to."""
    u = 3.0  # above every loss, so that each leaves its mark
    made = regimes.build("hm", source="random", destination=destination, budget=BUDGET, u=u)
    losses, ctx = {0: 2.0, 1: 2.0}, context(embedder("freeze-statistics"))
    for step in range(3):
        ctx.start(step)
        costs = {}
        if step == 2:
            resumed = regimes.build("hm", source="random", destination=destination, budget=BUDGET, u=u)
            resumed.restore(made.state())
            made = resumed
        for group, part in enumerate(batch(step, classes=4, per_class=4).parts(2)):
            ctx.group = group
            result = made.step(ctx, part)
            progress = losses[group] / u
            wanted = -0.2 * progress if destination == "lga" else 0.1 * (1 - progress)
            assert float(result.logs["hardness_destination"]) == pytest.approx(wanted, abs=1e-12)
            z = result.encoded.z.detach()
            places = [(i, i + 1, i + 2) for i in range(0, len(z), 3)]
            costs[group] = float(by_hand.triplet_loss(z, places))
        losses = costs
        assert abs(losses[0] - losses[1]) > 1e-3, "or the test says nothing"
        assert made.state() == pytest.approx({"previous_loss": losses[0], "previous_loss/1": losses[1]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"u": 0}, "u must be a number above 0"),
        ({"margin": -0.2}, "margin must be a number above 0"),
        ({"ics": -1}, "ics must be a number of 0 or more"),
        ({"ics": 0.5, "ics_margin": -1}, "ics_margin must be a number of 0 or more"),
        ({"ics_margin": 0.2}, "give its weight too"),
        ({"destination": 2.1}, "between -2 and 2"),
        ({"destination": {"name": "g-b", "xi": -0.1}}, "xi must be a number of 0 or more"),
        ({"destination": {"name": "g-b", "of": -3}}, "between -2 and 2"),
        ({"budget": {"eps": "8/255", "start": "uniform"}}, "start must be zero"),
        ({"source": "multi-similarity"}, r"regime\.source: MultiSimilarityMiner mines pairs.*use softhard"),
        ({"destination": "multi-similarity"}, r"regime\.destination: MultiSimilarityMiner mines pairs"),
        ({"destination": {"name": "g-b", "of": "multi-similarity"}}, r"regime\.destination\.of: .* mines pairs"),
        (
            {"source": {"name": "easy-positive", "negative": "multi-similarity"}},
            r"regime\.source: EasyPositive mines pairs",
        ),
        *(
            ({"destination": value}, r"regime\.destination: expected a destination or a miner or a number, got")
            for value in (True, None, [0.1], {"xi": 0.1})
        ),
        ({"destination": {"name": "g-b", "of": True}}, r"regime\.destination\.of: expected a miner or a number, got"),
        ({"destination": {"name": "g-b", "of": {"name": "semihrad"}}}, "unknown miner 'semihrad'"),
        ({"destination": "lgb"}, r"regime\.destination: unknown destination or miner 'lgb'; did you mean 'lga'"),
        ({"destination": "semihrad"}, r"unknown destination or miner 'semihrad'; did you mean 'semihard'"),
        ({"destination": {"name": "g-b", "of": "semihrad"}}, r"regime\.destination\.of: unknown miner 'semihrad'"),
        ({"destination": {"name": "g-b", "xii": 1}}, r"regime\.destination: unknown key 'xii'; did you mean 'xi'"),
    ],
)
def test_impossible_values_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        regimes.build("hm", **arguments)


class Undeclared(mining.Miner):
    """Mines pairs and does not say so."""

    def __call__(self, *given: Any) -> mining.Tuples:
        return mining.build("multi-similarity")(*given)


def test_what_cannot_be_mined_is_refused() -> None:
    with pytest.raises(RecipeError, match="set triplets = False"):
        regime(0.0, source=Undeclared()).step(context(embedder()), batch())
    with pytest.raises(DataError, match="two classes"):
        regime(0.0).step(context(embedder()), batch(per_class=1))
