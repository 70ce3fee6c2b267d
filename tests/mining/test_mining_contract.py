"""What every miner promises."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mining_oracle import batch, relevance

from holdfast import mining
from holdfast.errors import DataError, RecipeError
from holdfast.mining import Pairs, Triplets, Tuples

TRIPLET_MINERS = [name for name in mining.names() if name != "multi-similarity"]
WITH_VARIANT = ["random", "semihard", "softhard", "distance", "hardest"]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def check(tuples: Tuples, labels: torch.Tensor) -> None:
    if isinstance(tuples, Triplets):
        assert len(tuples.anchor) == len(tuples.positive) == len(tuples.negative)
        assert (tuples.anchor != tuples.positive).all()
        assert (labels[tuples.anchor] == labels[tuples.positive]).all()
        assert (labels[tuples.anchor] != labels[tuples.negative]).all()
    else:
        assert (tuples.anchor != tuples.other).all()
        assert ((labels[tuples.anchor] == labels[tuples.other]) == tuples.same).all()


def equal(one: Tuples, two: Tuples) -> bool:
    return type(one) is type(two) and all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_every_name_of_the_specification_is_there() -> None:
    assert set(mining.names()) == {
        "random", "semihard", "softhard", "distance", "hardest", "easy-positive", "ephn", "multi-similarity",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments"),
    [*((name, {}) for name in mining.names()), ("easy-positive", {"negative": "multi-similarity"})],
)
def test_a_miner_says_what_it_mines(name: str, arguments: dict[str, str]) -> None:
    miner = mining.build(name, **arguments)
    labels = torch.arange(12) // 3
    z = torch.nn.functional.normalize(torch.randn(12, 4, generator=seeded()), dim=1)
    assert miner.triplets is isinstance(miner(z, labels, seeded()), Triplets)


@pytest.mark.parametrize("name", mining.names())
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_tuples_respect_labels_in_any_batch(name: str, data: st.DataObject) -> None:
    labels = torch.tensor(data.draw(st.lists(st.integers(0, 4), min_size=2, max_size=14)))
    seed = data.draw(st.integers(0, 1000))
    z = torch.nn.functional.normalize(torch.randn(len(labels), 4, generator=seeded(seed)), dim=1)
    miner = mining.build(name)
    if len(labels.unique()) == 1:
        with pytest.raises(DataError, match="same label"):
            miner(z, labels, seeded())
        return
    tuples = miner(z, labels, seeded(seed))
    check(tuples, labels)
    counts = labels.bincount(minlength=5)
    if isinstance(tuples, Triplets):
        assert tuples.anchor.tolist() == [i for i in range(len(labels)) if counts[labels[i]] > 1]


@pytest.mark.parametrize("name", mining.names())
def test_relevance_matrix_gives_the_same_tuples_as_its_labels(name: str) -> None:
    z, labels = batch()
    miner = mining.build(name)
    assert equal(miner(z, labels, seeded(3)), miner(z, relevance(labels), seeded(3)))


@pytest.mark.parametrize("name", mining.names())
def test_one_seed_gives_one_result_and_global_state_is_untouched(name: str) -> None:
    z, labels = batch(classes=8)
    miner = mining.build(name)
    state = torch.random.get_rng_state()
    first = miner(z, labels, seeded(1))
    assert torch.equal(state, torch.random.get_rng_state())
    assert equal(first, miner(z, labels, seeded(1)))


@pytest.mark.parametrize("name", ["random", "semihard", "softhard", "distance", "hardest", "easy-positive"])
def test_another_seed_gives_another_result(name: str) -> None:
    z, labels = batch(classes=8)
    miner = mining.build(name)
    assert any(not equal(miner(z, labels, seeded(0)), miner(z, labels, seeded(s))) for s in range(1, 4))


@pytest.mark.parametrize("name", mining.names())
def test_no_graph_and_half_precision(name: str) -> None:
    z, labels = batch()
    miner = mining.build(name)
    leaf = z.clone().requires_grad_()
    assert equal(miner(leaf, labels, seeded()), miner(z, labels, seeded()))
    half = z.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = miner(half, labels, seeded())
    check(mixed, labels)
    assert equal(mixed, miner(half.float(), labels, seeded()))


@pytest.mark.parametrize("name", mining.names())
def test_one_class_is_refused(name: str) -> None:
    z, _ = batch(classes=1)
    with pytest.raises(DataError, match="two or more classes"):
        mining.build(name)(z, torch.zeros(len(z), dtype=torch.long), seeded())


@pytest.mark.parametrize("name", mining.names())
def test_a_batch_without_images_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="no images"):
        mining.build(name)(torch.zeros(0, 8), torch.zeros(0, dtype=torch.int64))


@pytest.mark.parametrize("name", mining.names())
def test_no_positive_pair_yields_no_tuple(name: str) -> None:
    z, _ = batch(classes=2, per_class=3)
    assert len(mining.build(name)(z, torch.arange(len(z)), seeded()).anchor) == 0


@pytest.mark.parametrize("name", mining.names())
def test_labels_must_fit_the_embeddings(name: str) -> None:
    z, labels = batch()
    with pytest.raises(DataError, match="one label per embedding"):
        mining.build(name)(z, labels[:-1], seeded())
    with pytest.raises(DataError, match="n × n"):
        mining.build(name)(z, torch.ones(len(z), 3, dtype=torch.bool), seeded())


@pytest.mark.parametrize("name", mining.names())
def test_coinciding_embeddings(name: str) -> None:
    z, labels = batch()
    check(mining.build(name)(z[:1].expand_as(z), labels, seeded()), labels)


@pytest.mark.parametrize("name", TRIPLET_MINERS)
def test_first_anchors_are_those_of_consecutive_pairs(name: str) -> None:
    z, _ = batch(classes=5, per_class=2)
    labels = torch.tensor([0, 0, 1, 1, 2, 3, 0, 0, 2, 3])  # rows 4 and 8 have no partner of their class
    tuples = mining.build(name, anchors="first")(z, labels, seeded())
    check(tuples, labels)
    assert tuples.anchor.tolist() == [0, 2, 6]


@pytest.mark.parametrize("name", TRIPLET_MINERS)
def test_first_anchors_need_pairs(name: str) -> None:
    z, labels = batch(classes=4, per_class=2)
    with pytest.raises(DataError, match="consecutive"):
        mining.build(name, anchors="first")(z, labels.roll(1), seeded())


@pytest.mark.parametrize("name", [name for name in WITH_VARIANT if name != "softhard"])
@pytest.mark.parametrize("anchors", ["each", "first"])
def test_published_positive_is_the_partner(name: str, anchors: str) -> None:
    z, labels = batch(classes=4, per_class=4)
    tuples = mining.build(name, variant="published", anchors=anchors)(z, labels, seeded())
    assert isinstance(tuples, Triplets)
    check(tuples, labels)
    assert torch.equal(tuples.positive, tuples.anchor ^ 1)
    assert len(tuples.anchor) == (16 if anchors == "each" else 8)


def test_recipe_builds_nested_miners_and_refuses_unfit_ones() -> None:
    z, labels = batch()
    miner = mining.build("easy-positive", negative={"name": "semihard", "margin": "1/5"}, anchors="first")
    assert isinstance(miner(z, labels, seeded()), Triplets)
    assert isinstance(mining.build("easy-positive", negative="multi-similarity")(z, labels), Pairs)
    with pytest.raises(RecipeError, match="easy-positive cannot take negatives"):
        mining.build("easy-positive", negative="easy-positive")
    with pytest.raises(RecipeError, match="published"):
        mining.build("semihard", positives="semihard", variant="published")
