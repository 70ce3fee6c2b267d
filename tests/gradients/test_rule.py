"""The rule as a whole: against loops, against the losses it stands for, and as a citizen of training."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from gradient_oracle import batch, direct_gradient, gradient_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import softplus

from holdfast import gradients, losses, mining
from holdfast.errors import HoldfastError, RecipeError
from holdfast.gradients import RULES
from holdfast.gradients import rule as rules
from holdfast.mining import Pairs, Triplets
from holdfast.sphere import pair_masks
from holdfast.training import load_recipe

DIRECTIONS = ("euc", "cos", "euc-orth", "cos-orth")
PAIRS = ("con", "euc", "lin", "sig", "sig-ms", "lin-ms")
TRIPLETS = ("con", "cos", "cir")
MASKS = (None, "sc1", "sc2")


def test_the_eight_rules_are_those_of_the_specification() -> None:
    assert {name: tuple(parts) for name, parts in RULES.items()} == {
        "triplet-euclidean": ("euc", "euc", "con", None),
        "triplet-cosine": ("cos", "con", "cos", None),
        "circle": ("cos", "lin", "cir", None),
        "binomial-deviance": ("cos", "sig", "con", None),
        "ms": ("cos", "sig-ms", "con", None),
        "dr-ms": ("cos-orth", "sig-ms", "con", None),
        "sc-triplet": ("cos", "con", "cos", "sc1"),
        "best": ("cos-orth", "lin-ms", "cir", None),
    }
    for name in gradients.names():
        assert gradients.named(name).components == RULES[name]  # type: ignore[index]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_combination_equals_a_loop(direction: str) -> None:
    z, labels = batch(1)
    triplets = mining.build("random")(z, labels, torch.Generator().manual_seed(0))
    for pair, triplet, mask in itertools.product(PAIRS, TRIPLETS, MASKS):
        loss = gradients.build(direction=direction, pair=pair, triplet=triplet, mask=mask)
        assert loss.components == (direction, pair, triplet, mask)
        expected = direct_gradient(direction, pair, triplet, mask, z, labels, triplets)
        torch.testing.assert_close(gradient_of(loss, z, labels, triplets), expected, rtol=1e-9, atol=1e-10)


def test_the_second_mask_with_its_printed_sign_equals_a_loop_and_is_its_complement() -> None:
    z, labels = batch(1)
    triplets = mining.build("random")(z, labels, torch.Generator().manual_seed(0))
    parts = {"direction": "cos", "pair": "lin", "triplet": "cos"}
    printed = gradients.build(**parts, mask={"name": "sc2", "printed": True})
    expected = direct_gradient("cos", "lin", "cos", "sc2 as printed", z, labels, triplets)
    found = gradient_of(printed, z, labels, triplets)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)
    near, far = torch.rand(2, 200, generator=torch.Generator().manual_seed(0))
    drawn = gradients.build(**parts, mask="sc2").mask
    assert torch.equal(printed.mask(near, far), ~drawn(near, far))
    assert 0 < printed.mask(near, far).sum() < 200


@pytest.mark.parametrize("pair", ["lin-ms", "sig-ms"])
def test_copies_of_the_anchor_are_none_of_its_other_positives(pair: str) -> None:
    z, labels = batch(1, per_class=4)
    by_class = labels.argsort(stable=True).view(-1, 4)
    numbers = torch.arange(len(z))
    numbers[by_class[:, 1]] = numbers[by_class[:, 0]]  # two rows of each class show one image
    triplets = mining.build("ephn")(z, labels, images=numbers)
    loss = gradients.build(direction="cos", pair=pair, triplet="con", mask=None)

    def cost(leaf: Tensor, numbers: Tensor | None) -> Tensor:
        return loss.batch_loss(losses.Encoded(leaf, leaf, labels, numbers), triplets, None, 0)

    expected = direct_gradient("cos", pair, "con", None, z, labels, triplets, numbers)
    torch.testing.assert_close(gradient_of(cost, z, numbers), expected, rtol=1e-9, atol=1e-10)
    assert not torch.allclose(gradient_of(cost, z, None), expected), "copies should matter here"
    mined = loss.batch_loss(losses.Encoded(z, z, labels, numbers), None, None, 0)
    assert mined == loss.batch_loss(losses.Encoded(z, z, labels, numbers), triplets, None, 0)


def squared_triplet(s_ap: Tensor, s_an: Tensor, d_ap: Tensor, d_an: Tensor) -> Tensor:
    return (d_ap**2 - d_an**2 + 10).relu()


TRUE_LOSSES: dict[str, tuple[Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], float]] = {
    "triplet-euclidean": (squared_triplet, 1 / 4),
    "triplet-cosine": (lambda s_ap, s_an, *_: softplus(s_an - s_ap), 1.0),
    "circle": (lambda s_ap, s_an, *_: softplus(s_an**2 - s_ap * (2 - s_ap)), 1 / 2),
    "binomial-deviance": (
        lambda s_ap, s_an, *_: softplus(-2 * (s_ap - 0.5)) / 2 + softplus(10 * (s_an - 0.5)) / 10,
        1 / 2,
    ),
}
"""Per triplet, the loss behind a rule, and the constant between their gradients at τ = 1."""


def mean_of(cost: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor, Triplets], Tensor]:
    def loss(z: Tensor, labels: Tensor, triplets: Triplets) -> Tensor:
        a, p, n = (z[index] for index in triplets)
        return cost((a * p).sum(1), (a * n).sum(1), (a - p).norm(dim=1), (a - n).norm(dim=1)).mean()

    return loss


@pytest.mark.parametrize("name", TRUE_LOSSES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_gradient_is_that_of_the_true_loss(name: str, seed: int) -> None:
    z, labels = batch(seed)
    found = mining.build("ephn")(z, labels)
    # The linear pair weight is held at zero where a negative lies beyond a right angle; the true loss is not.
    chosen = (z[found.anchor] * z[found.negative]).sum(1) > 0 if name == "circle" else slice(None)
    triplets = Triplets(*(index[chosen] for index in found))
    cost, constant = TRUE_LOSSES[name]
    expected = constant * gradient_of(mean_of(cost), z, labels, triplets)
    torch.testing.assert_close(gradient_of(gradients.named(name), z, labels, triplets), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "peer", "arguments", "constant"),
    [
        ("triplet-euclidean", "triplet", {"squared": True, "margin": 10}, 1 / 4),
        ("triplet-cosine", "triplet-cosine", {}, 1.0),
        ("binomial-deviance", "binomial-deviance", {}, 1 / 2),
    ],
)
def test_gradient_is_that_of_our_loss_of_the_name(
    name: str, peer: str, arguments: dict[str, float], constant: float
) -> None:
    z, labels = batch(2)
    expected = constant * gradient_of(losses.build(peer, miner="ephn", **arguments), z, labels)
    torch.testing.assert_close(gradient_of(gradients.named(name), z, labels), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("tau", [0.5, 3.0])
def test_sharpness_changes_the_constant(tau: float) -> None:
    z, labels = batch(3)
    triplets = mining.build("ephn")(z, labels)
    soft = gradients.build(rule="triplet-cosine", triplet={"name": "cos", "tau": tau})
    expected = gradient_of(mean_of(lambda s_ap, s_an, *_: softplus(tau * (s_an - s_ap))), z, labels, triplets) / tau
    torch.testing.assert_close(gradient_of(soft, z, labels, triplets), expected, rtol=0, atol=1e-10)


def test_the_value_falls_to_zero_for_ideal_triplets() -> None:
    z, labels = torch.eye(4, dtype=torch.float64).repeat_interleave(2, 0), torch.arange(4).repeat_interleave(2)
    loss = gradients.named("best")
    assert loss(z, labels) == 0
    assert (gradient_of(loss, z, labels) == 0).all()
    assert loss(*batch(0)) > 0


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_where_vectors_coincide_or_oppose(direction: str, dtype: torch.dtype) -> None:
    z, labels = batch(0)
    z = z.to(dtype)
    one = z[:1].expand_as(z)
    both = torch.where((torch.arange(len(z)) % 2 == 0)[:, None], one, -one)
    close = torch.nn.functional.normalize(one + 1e-6 * z, dim=1)
    for pair, triplet in itertools.product(PAIRS, TRIPLETS):
        loss = gradients.build(direction=direction, pair=pair, triplet=triplet)
        for vectors in (one, both, close):
            gradient = gradient_of(loss, vectors, labels)
            assert gradient.isfinite().all()
            assert gradient.norm(dim=1).max() < 200, "no weight explodes"


def test_pairs_stand_for_the_triplets_they_join_whatever_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    z, labels = batch(4)
    pairs = mining.build("multi-similarity")(z, labels)
    assert isinstance(pairs, Pairs)
    rows = list(zip(*(index.tolist() for index in pairs), strict=True))
    every = [(a, p, n) for a, p, near in rows for b, n, also in rows if a == b and near and not also]
    triplets = Triplets(*torch.tensor(every).T)
    loss = gradients.named("best")
    expected = gradient_of(loss, z, labels, triplets)
    torch.testing.assert_close(gradient_of(loss, z, labels, pairs), expected)
    torch.testing.assert_close(gradient_of(gradients.named("best", miner="multi-similarity"), z, labels), expected)
    monkeypatch.setattr(rules, "BLOCK", 5 * len(z))
    assert len(every) > 20
    torch.testing.assert_close(gradient_of(loss, z, labels, triplets), expected)


@pytest.mark.parametrize("name", mining.names())
def test_takes_any_miner(name: str) -> None:
    z, labels = batch(5, per_class=4)
    gradient = gradient_of(gradients.named("best", miner=name), z, labels)
    assert gradient.isfinite().all()
    assert gradient.norm() > 0


def test_multi_label_relevance() -> None:
    z, labels = batch(6)
    positive, _ = pair_masks(labels)
    overlapping = positive | positive.T.roll(3, 0) | positive.T.roll(3, 0).T
    overlapping.fill_diagonal_(False)
    assert gradient_of(gradients.named("ms"), z, positive).equal(gradient_of(gradients.named("ms"), z, labels))
    assert gradient_of(gradients.named("ms"), z, overlapping).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scaled_half_precision_gradients_do_not_vanish(dtype: torch.dtype) -> None:
    z, labels = batch(7)
    half = z.to(dtype).requires_grad_()
    scale = 2.0**12
    with torch.autocast("cpu", torch.bfloat16):
        value = gradients.named("best")(half, labels)
    assert value.dtype == torch.float32
    (value * scale).backward()
    assert half.grad is not None
    assert half.grad.dtype == dtype
    expected = gradient_of(gradients.named("best"), half.detach().float(), labels)
    torch.testing.assert_close(half.grad.float() / scale, expected, rtol=2e-2, atol=1e-4)


@pytest.mark.parametrize("name", ["best", "triplet-euclidean", "sc-triplet"])
def test_compiles(name: str) -> None:
    z, labels = batch(8)
    loss = gradients.named(name)
    triplets = mining.build("ephn")(z, labels)
    torch._dynamo.reset()
    whole = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(gradient_of(whole, z, labels, triplets), gradient_of(loss, z, labels, triplets))
    mined = torch.compile(loss, backend="aot_eager")
    torch.testing.assert_close(gradient_of(mined, z, labels), gradient_of(loss, z, labels))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"direction": "coss"}, ["did you mean 'cos'", "euc-orth"]),
        ({"pair": "quadratic"}, ["con, euc, lin, lin-ms, sig, sig-ms"]),
        ({"triplet": "hinge"}, ["cir, con, cos"]),
        ({"mask": "sc3"}, ["sc1", "sc2"]),
        ({"rule": "bst"}, ["did you mean 'best'", "binomial-deviance"]),
        ({"pair": {"name": "lin", "alpha": 2}}, ["alpha"]),
        ({"pair": {"name": "sig", "alpha": -2}}, ["alpha must be above zero"]),
        ({"miner": "ephm"}, ["did you mean 'ephn'"]),
    ],
)
def test_unknown_parts_are_refused_with_the_valid_ones(arguments: dict[str, object], words: list[str]) -> None:
    with pytest.raises(HoldfastError) as by_hand:
        gradients.build(**arguments)  # type: ignore[arg-type]
    with pytest.raises(RecipeError) as by_recipe:
        load_recipe({"data": "glyphs", "loss": {"name": "gradient", **arguments}})
    for error in (str(by_hand.value), str(by_recipe.value)):
        assert "\n" not in error
        for word in words:
            assert word in error


def test_recipes_name_rules_and_replace_their_parts() -> None:
    recipe = load_recipe("gs-pocket", settings=["loss.rule=sc-triplet", "loss.pair={name: sig, beta: 40}"])
    loss = recipe.loss.build()
    assert isinstance(loss, gradients.DirectGradient)
    assert loss.components == ("cos", "sig", "cos", "sc1")
    assert load_recipe(recipe.plain()) == recipe
    written = {"name": "gradient", "direction": "cos-orth", "pair": "lin-ms", "triplet": "cir", "mask": None}
    by_parts = load_recipe({"data": "glyphs", "loss": {**written, "miner": "ephn"}}).loss.build()
    assert isinstance(by_parts, gradients.DirectGradient)
    assert by_parts.components == RULES["best"]


@pytest.mark.parametrize("name", gradients.names())
def test_derivatives_by_torch_func(name: str) -> None:
    z, labels = batch()
    triplets = mining.build("random")(z, labels, torch.Generator().manual_seed(0))
    rule = gradients.named(name)

    def value(v: Tensor) -> Tensor:
        found: Tensor = rule(v, labels, triplets)
        return found

    torch.testing.assert_close(torch.func.grad(value)(z), gradient_of(value, z))
    several = torch.stack([z, z.flip(1)])
    expected = torch.stack([gradient_of(value, v) for v in several])
    torch.testing.assert_close(torch.vmap(torch.func.grad(value))(several), expected)
