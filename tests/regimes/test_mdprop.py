from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from regime_cases import CLASSES, batch, context, embedder, gradients, train_a_few, unit
from torch import Tensor

from holdfast import attacks, regimes
from holdfast.attacks import Budget, References
from holdfast.config import block
from holdfast.errors import DataError, ModelError, RecipeError
from holdfast.losses import build as build_loss
from holdfast.models import Embedder
from holdfast.models.bank import SetStart
from holdfast.regimes import Batch, Regime, StepContext
from holdfast.regimes import mdprop as module
from holdfast.regimes.mdprop import Distribution, MDProp, permutations

LOSS = "contrastive"
"""Without a miner or a random draw, so that an oracle can compute it anywhere."""

STAX = {"name": "stax", "goal": "single-target"}
MTAX = {"name": "mtax", "goal": {"name": "multi-target", "targets": 3}}
UX = {"name": "ux", "goal": "unadversarial"}
ONE_STEP = Budget(eps=0.05, steps=1)


def mdprop(*distributions: dict[str, Any], **arguments: Any) -> MDProp:
    made = regimes.build("mdprop", distributions=[{"budget": ONE_STEP, **d} for d in distributions], **arguments)
    assert isinstance(made, MDProp)
    return made


def ready(regime: Regime, batchnorm: str = "train", **arguments: Any) -> tuple[Embedder, StepContext]:
    """A model with the regime's sets, each made different from the others, and a context around it."""
    sets = tuple(SetStart(s.name, 0.3, s.fresh) for s in regime.sets())
    model = embedder(batchnorm, sets=sets)
    return model, context(model, LOSS, **arguments)


def alone(model: Embedder, name: str | None) -> Embedder:
    """A copy of the network with a set screwed in for good, and no bank."""
    made = copy.deepcopy(model)
    if name is not None:
        made.backbone.bn = made.bank.sets[name][0]
    for other in made.bank.names():
        del made.bank.sets[other]
    return made


def looked(model: Embedder, images: Tensor, statistics: str) -> Tensor:
    """Vectors under the statistics of crafting, from a network that forgets the look."""
    model = copy.deepcopy(model)
    if statistics == "eval":
        model.eval()
    return unit(model, images)


def one_step(model: Embedder, images: Tensor, targets: Tensor, eps: float, statistics: str) -> Tensor:
    """`x - ε sign ∇ Σ_i mean_t ||f(x_i) - t||`, within [0, 1]; targets of shape (images, T, dim)."""
    x = images.clone().requires_grad_()
    total = (looked(model, x, statistics)[:, None] - targets).norm(dim=2).mean(1).sum()
    (slope,) = torch.autograd.grad(total, x)
    return (images - eps * slope.sign()).clamp(0, 1)


def drawn(regime: MDProp, made: StepContext, z: Tensor, labels: Tensor, rows: Sequence[Tensor]) -> list[Tensor]:
    """The targets each distribution's goal draws, by the generators of the step."""
    found = []
    for distribution, part in zip(regime.distributions, rows, strict=True):
        generator = made.generator(f"targets-{distribution.name}")
        found.append(distribution.goal.bind(References(z, labels, normalize=False), part, generator).targets)  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("statistics", ["eval", "keep"])
@pytest.mark.parametrize("batchnorm", ["train", "freeze-statistics"])
def test_paper_is_the_sum_over_networks_that_share_all_but_batchnorm(batchnorm: str, statistics: str) -> None:
    regime = mdprop(STAX, MTAX, UX, statistics=statistics)
    model, made = ready(regime, batchnorm)
    data, loss = batch(), build_loss(LOSS)
    clean, *others = (alone(model, name) for name in (None, "stax", "mtax", "ux"))
    z = looked(clean, data.images, statistics).detach()
    every = torch.arange(len(data.labels))
    moved = [
        one_step(network, data.images, z[targets], 0.05, statistics)
        for network, targets in zip(others, drawn(regime, made, z, data.labels, [every] * 3), strict=True)
    ]
    networks, inputs = [clean, *others], [data.images, *moved]
    terms = [loss(unit(network, x), data.labels) for network, x in zip(networks, inputs, strict=True)]

    result = regime.step(made, data)

    torch.testing.assert_close(result.loss, torch.stack(terms).sum())
    assert list(result.terms) == ["loss/clean", "loss/stax", "loss/mtax", "loss/ux"]
    torch.testing.assert_close(list(result.terms.values()), terms)
    found, expected = gradients(model, result.loss), [gradients(n, t) for n, t in zip(networks, terms, strict=True)]
    for name in ("conv.weight", "conv.bias", "out.weight", "out.bias"):
        torch.testing.assert_close(found[f"backbone.{name}"], sum(e[f"backbone.{name}"] for e in expected))
    for which in ("weight", "bias"):
        own = [found[f"backbone.bn.{which}"], *(found[f"bank.sets.{n}.0.{which}"] for n in ("stax", "mtax", "ux"))]
        for gradient, oracle in zip(own, expected, strict=True):
            assert oracle[f"backbone.bn.{which}"].norm() > 1e-6
            torch.testing.assert_close(gradient, oracle[f"backbone.bn.{which}"])
    layers = [model.backbone.bn, *(model.bank.sets[n][0] for n in ("stax", "mtax", "ux"))]
    for layer, network in zip(layers, networks, strict=True):  # one pass each, and crafting left no trace
        torch.testing.assert_close(layer.running_mean, network.backbone.bn.running_mean)
        torch.testing.assert_close(layer.running_var, network.backbone.bn.running_var)
        assert torch.equal(layer.num_batches_tracked, network.backbone.bn.num_batches_tracked)


def test_all_sets_tied_is_plain_training_on_all_inputs_with_shared_batchnorm() -> None:
    regime = mdprop(STAX, MTAX, separate=False)
    assert regime.sets() == ()
    model, made = ready(regime)
    data, loss = batch(), build_loss(LOSS)
    shared = copy.deepcopy(model)
    z = looked(shared, data.images, "eval").detach()
    every = torch.arange(len(data.labels))
    targets = drawn(regime, made, z, data.labels, [every] * 2)
    inputs = [data.images, *(one_step(shared, data.images, z[t], 0.05, "eval") for t in targets)]
    expected = sum(loss(unit(shared, x), data.labels) for x in inputs)
    result = regime.step(made, data)
    torch.testing.assert_close(result.loss, expected)
    torch.testing.assert_close(gradients(model, result.loss), gradients(shared, expected))
    torch.testing.assert_close(model.state_dict(), shared.state_dict())
    assert int(model.backbone.bn.num_batches_tracked) == 3 + 3


def rolled(times: int, count: int, *_: object) -> Tensor:
    """Orders in which no image is its own target: from there the way to itself is a matter of rounding."""
    return torch.stack([torch.arange(count).roll(n + 1) for n in range(times)])


@pytest.mark.parametrize("statistics", ["eval", "keep"])
@pytest.mark.parametrize("count", [12, 11])
def test_released_moves_each_part_towards_its_own_images_and_takes_one_loss(
    count: int, statistics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "permutations", rolled)
    regime = mdprop(STAX, MTAX, variant="released", statistics=statistics)
    assert [start.fresh for start in regime.sets()] == [True, True]
    model, made = ready(regime)
    assert torch.equal(model.bank.sets["stax"][0].running_mean, torch.zeros(4, dtype=torch.float64))
    whole, loss = batch(), build_loss(LOSS)
    data = Batch(whole.images[:count], whole.labels[:count])
    parts = [torch.arange(count // 2), torch.arange(count // 2, count)]  # an odd image goes to the second
    clean, *others = (alone(model, name) for name in (None, "stax", "mtax"))
    vectors, labels = [unit(clean, data.images)], [data.labels]
    for network, rows, targets in zip(others, parts, (1, 3), strict=True):
        images = data.images[rows]
        seen = looked(network, images, statistics).detach()
        x = one_step(network, images, seen[rolled(targets, len(rows)).T], 0.05, statistics)
        vectors.append(unit(network, x))
        labels.append(data.labels[rows])
    expected = loss(torch.cat(vectors), torch.cat(labels))
    result = regime.step(made, data)
    torch.testing.assert_close(result.loss, expected)
    shared = torch.autograd.grad(expected, [n.backbone.conv.weight for n in (clean, *others)])
    torch.testing.assert_close(gradients(model, result.loss)["backbone.conv.weight"], sum(shared))
    assert sorted(result.logs) == ["shift/mtax", "shift/stax"]


def test_released_draws_permutations() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.stack([permutations(5, 7, generator) for _ in range(300)])
    assert torch.equal(drawn.sort(2).values, torch.arange(7).expand_as(drawn)), "each image once"
    itself = (drawn == torch.arange(7)).double().mean()
    assert 0.1 < itself < 0.19, "an image draws itself once in seven times"
    assert not torch.equal(drawn[0, 0], drawn[0, 1]), "one target does not say what the next is"


def test_released_does_not_look_at_labels_when_it_draws() -> None:
    data = batch(classes=1, per_class=6)
    released, paper = mdprop(STAX, variant="released"), mdprop(STAX)
    _, made = ready(released)
    assert torch.isfinite(released.step(made, data).loss)
    with pytest.raises(DataError, match=r"'stax'.*no reference of another label"):
        paper.step(made, data)


@pytest.mark.parametrize(
    ("arguments", "looks"), [({}, 1), ({"variant": "released"}, 2), ({"separate": False}, 1)], ids=str
)
def test_a_step_costs_one_pass_and_those_of_each_distribution(arguments: dict[str, Any], looks: int) -> None:
    longer = {**MTAX, "budget": Budget(eps=0.05, steps=4)}
    regime = mdprop(STAX, longer, **arguments)
    _, made = ready(regime)
    regime.step(made, batch())
    assert made.passes == 1 + (1 + 1) + (4 + 1)
    assert made.looks == looks


@settings(max_examples=15, deadline=None)
@given(order=st.permutations([STAX, MTAX, UX]), seed=st.integers(0, 99), start=st.sampled_from(["zero", "uniform"]))
def test_the_order_of_distributions_does_not_matter(order: list[dict[str, Any]], seed: int, start: Any) -> None:
    budget = Budget(eps=0.05, steps=2, start=start)
    results = []
    for distributions in ([STAX, MTAX, UX], order):
        regime = mdprop(*({**d, "budget": budget} for d in distributions))
        model = embedder(sets=tuple(SetStart(name) for name in ("stax", "mtax", "ux")))
        results.append(regime.step(context(model, LOSS, seed=seed), batch(seed)))
    torch.testing.assert_close(results[0].loss, results[1].loss)
    torch.testing.assert_close(results[0].terms, dict(results[1].terms))


def test_shift_is_the_distance_to_the_clean_vectors() -> None:
    regime = mdprop(STAX)
    model, made = ready(regime, "freeze-statistics")
    data = batch()
    far = regime.step(made, data).logs["shift/stax"]
    networks = [alone(model, None), alone(model, "stax")]
    z = looked(networks[0], data.images, "eval").detach()
    (targets,) = drawn(regime, made, z, data.labels, [torch.arange(len(z))])
    x = one_step(networks[1], data.images, z[targets], 0.05, "eval")
    torch.testing.assert_close(far, (unit(networks[1], x) - z).norm(dim=1).mean())


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_advprop_d_is_mdprop_with_one_distribution(variant: str) -> None:
    budget = {"eps": 0.05, "steps": 2, "start": "uniform"}
    results = []
    for regime in (
        regimes.build("advprop-d", budget=budget, noise=0.1, variant=variant),
        mdprop({**STAX, "budget": budget, "noise": 0.1}, variant=variant),
    ):
        assert regime.sets() == (SetStart("stax", 0.1, variant == "released"),)
        _, made = ready(regime)
        results.append(regime.step(made, batch()).loss)
    assert torch.equal(*results)


def test_training_changes_every_set_and_lowers_the_loss() -> None:
    regime = mdprop(STAX, MTAX)
    model, made = ready(regime)
    before = copy.deepcopy(model.state_dict())
    for _ in range(4):
        losses = train_a_few(regime, made, model, steps=4)
    first = train_a_few(regime, *reversed(ready(regime)), steps=1)[0]  # type: ignore[arg-type]
    assert losses[0] < first
    assert [name for name, value in model.state_dict().items() if torch.equal(value, before[name])] == []


@pytest.mark.parametrize("goal", sorted(set(attacks.names()) - {"collapse", "hardness"}))
def test_every_goal_that_moves_images_works(goal: str) -> None:
    arguments: dict[str, Any] = {"goals": ["single-target", "shift"]} if goal in ("sum", "worst-of") else {}
    if goal == "multi-target":
        arguments = {"targets": 2}
    regime = mdprop({"name": "x", "goal": {"name": goal, **arguments}})
    _, made = ready(regime)
    result = regime.step(made, batch(per_class=8))
    assert torch.isfinite(result.loss)
    assert result.logs["shift/x"] > 0


def test_more_targets_than_a_batch_has_other_classes() -> None:
    regime = mdprop({"name": "mtax", "goal": {"name": "multi-target", "targets": CLASSES}})
    _, made = ready(regime)
    with pytest.raises(DataError, match=r"'mtax', with one batch to draw targets from.*needs 4 other classes"):
        regime.step(made, batch())
    released = mdprop({"name": "mtax", "goal": {"name": "multi-target", "targets": CLASSES}}, variant="released")
    _, made = ready(released)
    assert torch.isfinite(released.step(made, batch()).loss)


@pytest.mark.parametrize("name", ["mdprop", "advprop-d"])
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_images_are_crafted_with_running_statistics_unless_told_otherwise(name: str, variant: str) -> None:
    losses = {}
    for arguments in ({}, {"statistics": "eval"}, {"statistics": "keep"}):
        regime = regimes.build(name, variant=variant, **arguments)
        losses[arguments.get("statistics")] = regime.step(ready(regime)[1], batch(classes=6, per_class=2)).loss
    assert torch.equal(losses[None], losses["eval"])
    assert not torch.equal(losses["eval"], losses["keep"])


def test_captions() -> None:
    line = {"loss/clean": 0.44, "loss/stax": 0.468, "loss/mtax": 0.48, "shift/stax": 0.111, "shift/mtax": 0.2}
    assert regimes.build("mdprop").caption(line) == "clean 0.44  stax 0.47  mtax 0.48"
    assert regimes.build("advprop-d").caption(line) == "clean 0.44  stax 0.47"
    assert regimes.build("mdprop", variant="released").caption(line) == "shift stax 0.11  mtax 0.20"


def test_released_needs_a_part_for_each() -> None:
    regime = mdprop(*({**STAX, "name": f"s{n}"} for n in range(5)), variant="released")
    _, made = ready(regime)
    with pytest.raises(DataError, match="a batch of 4 has no part for each of 5"):
        regime.step(made, batch(classes=2, per_class=2))
    assert torch.isfinite(regime.step(made, batch(classes=3, per_class=2)).loss), "uneven parts are fine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"distributions": []}, "empty; name one or more"),
        ({"distributions": [STAX, STAX]}, "'stax' twice"),
        ({"distributions": [{**STAX, "name": "clean"}]}, "'clean' cannot name a distribution"),
        ({"distributions": [{**STAX, "name": "a.b"}]}, "cannot name a distribution"),
        ({"distributions": [{**STAX, "name": "items"}]}, "cannot name a distribution"),
        ({"distributions": [{**STAX, "name": ""}]}, "cannot name a distribution"),
        ({"distributions": [{**STAX, "noise": -1}]}, "'stax': noise must be a number of 0 or more"),
        ({"distributions": [{**STAX, "noise": 1}], "separate": False}, "separate: false takes away"),
        ({"distributions": [{**STAX, "goal": "collapse"}]}, "regime: act"),
        ({"distributions": [{**STAX, "goal": "hardness"}]}, "regime: hm"),
        ({"distributions": [UX], "variant": "released"}, "'ux'.*use variant: paper"),
        ({"distributions": [{"name": "x"}]}, r"distributions\[0\]: 'goal' is required"),
        ({"distributions": [{**STAX, "budgets": {}}]}, r"distributions\[0\]: unknown key 'budgets'"),
        ({"distributions": [{**STAX, "goal": {"name": "multi-target", "targets": 0}}]}, "targets must be 1 or more"),
        ({"distributions": "stax"}, "expected a list"),
        ({"variant": "author"}, "variant"),
    ],
)
def test_what_cannot_work_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        regimes.build("mdprop", **arguments)
    assert "\n" not in str(caught.value)


def test_a_backbone_without_batchnorm_is_refused() -> None:
    model = Embedder.wrap(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(108, 4)), size=6)
    with pytest.raises(ModelError, match="no BatchNorm layers"):
        model.bank.add(model.backbone, mdprop(STAX).sets()[0])


def test_the_recipe_of_the_interface() -> None:
    written = yaml.safe_load(
        """
        name: mdprop
        distributions:
          - {name: stax, goal: {name: single-target}, budget: {eps: 0.01, units: normalized, steps: 1}}
          - {name: mtax, goal: {name: multi-target, targets: 5}, budget: {eps: 0.01, units: normalized, steps: 1}}
        """
    )
    made = block(Regime, written)  # type: ignore[type-abstract]
    regime = made.build()
    assert isinstance(regime, MDProp)
    assert [(d.name, type(d.goal).__name__) for d in regime.distributions] == [
        ("stax", "SingleTarget"),
        ("mtax", "MultiTarget"),
    ]
    assert regime.distributions[1].goal.targets == 5  # type: ignore[attr-defined]
    budget = regime.distributions[0].budget
    assert (budget.eps, budget.units, budget.steps) == (0.01, "normalized", 1)
    assert regime.sets() == (SetStart("stax"), SetStart("mtax"))
    assert block(Regime, made.plain).plain == made.plain  # type: ignore[type-abstract]


@pytest.mark.parametrize("made", [lambda: regimes.build("mdprop"), lambda: block(Regime, "mdprop").build()])  # type: ignore[type-abstract]
def test_two_extra_sets_by_default(made: Any) -> None:
    stax, mtax = made().distributions
    assert (stax.name, mtax.name, mtax.goal.targets) == ("stax", "mtax", 5)
    assert stax.budget == mtax.budget == Distribution(name="x", goal=stax.goal).budget
    assert (stax.budget.eps, stax.budget.steps, stax.budget.start_eps, stax.budget.units) == (
        0.01,
        1,
        0.0005,
        "normalized",
    )
