"""Pair losses on unusual batches, small and large."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loss_batches import every_pair, value_and_gradient
from torch import Tensor

from holdfast import losses, pair_matrix
from holdfast.losses.comparison import masks_of
from holdfast.mining import Pairs, Triplets

NAMES = ["binomial-deviance", "circle", "contrastive", "info-nce", "lifted-structure", "multi-similarity", "sup-con"]
SIZE = 24
LABELS = {
    "one class": torch.zeros(SIZE, dtype=torch.long),
    "singletons": torch.arange(SIZE),
    "a huge class among singletons": torch.arange(SIZE).clamp_max(8),
    "two classes": torch.arange(SIZE) % 2,
    "pairs": torch.arange(SIZE) // 2,
}


def vectors(unit: bool = True) -> Tensor:
    z = torch.randn(SIZE, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return torch.nn.functional.normalize(z, dim=1) if unit else z


@pytest.fixture(params=[1, 10**9], ids=["large", "small"], autouse=True)
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From which batch on the faster way is taken."""
    monkeypatch.setattr(pair_matrix, "LARGE", request.param)
    monkeypatch.setattr(pair_matrix, "SMALL", request.param)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", LABELS)
def test_any_division_into_classes(name: str, kind: str) -> None:
    for unit in (True, False):
        z, labels = vectors(unit), LABELS[kind]
        expected = value_and_gradient(losses.build(name), z, labels, every_pair(labels))
        for relation in (labels, labels[:, None] == labels[None, :]):
            for found, wanted in zip(value_and_gradient(losses.build(name), z, relation), expected, strict=True):
                torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_relevance_that_is_not_mutual(name: str) -> None:
    z, relevance = vectors(), LABELS["pairs"][:, None] == LABELS["pairs"]
    relevance[0, 7] = True
    anchor, other = torch.where(~torch.eye(SIZE, dtype=torch.bool))
    pairs = Pairs(anchor, other, relevance[anchor, other])
    found, wanted = (value_and_gradient(losses.build(name), z, relevance, given) for given in (None, pairs))
    torch.testing.assert_close(found, wanted)
    assert found[0] != value_and_gradient(losses.build(name), z, LABELS["pairs"])[0]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(size=st.integers(1, 8), number=st.integers(0, 20), seed=st.integers(0, 1000))
@pytest.mark.parametrize("kind", [Triplets, Pairs])
def test_masks_of_tuples(kind: type[Triplets | Pairs], size: int, number: int, seed: int) -> None:
    """In any order, with repetitions, with images paired with themselves as one published miner does, or none."""
    one, two, three = torch.randint(size, (3, number), generator=torch.Generator().manual_seed(seed))
    # A pair is of one kind only.
    tuples = Triplets(one, two, three) if kind is Triplets else Pairs(one, two, (one + two) % 2 == 0)
    pos, neg = torch.zeros(2, size, size, dtype=torch.bool)
    for i, (a, b) in enumerate(zip(one.tolist(), two.tolist(), strict=True)):
        if isinstance(tuples, Triplets):
            pos[a, b] = neg[a, int(three[i])] = True
        else:
            (pos if tuples.same[i] else neg)[a, b] = True
    for found, expected in zip(masks_of(tuples, (size, size)), (pos, neg), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_a_number_is_not_hidden(name: str) -> None:
    z, labels = vectors(), LABELS["pairs"]
    z[3, 2] = torch.nan
    value, gradient = value_and_gradient(losses.build(name), z, labels)
    assert value.isnan()
    assert gradient.isnan().any()


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_gives_the_gradient_of_its_float(name: str) -> None:
    half, labels = vectors().bfloat16(), LABELS["pairs"]
    value, gradient = value_and_gradient(losses.build(name), half, labels)
    expected, expected_gradient = value_and_gradient(losses.build(name), half.float(), labels)
    assert value.dtype == torch.float32
    assert gradient.dtype == torch.bfloat16
    assert value == expected
    assert torch.equal(gradient, expected_gradient.bfloat16())


@pytest.mark.parametrize("name", NAMES)
def test_a_second_call_finds_nothing_of_the_first(name: str) -> None:
    z, labels = vectors(), LABELS["pairs"]
    loss, before = losses.build(name), z.clone()
    first = value_and_gradient(loss, z, labels)
    value_and_gradient(loss, vectors(unit=False), LABELS["two classes"])
    second = value_and_gradient(loss, z, labels)
    assert torch.equal(z, before)
    assert first[0] == second[0]
    assert torch.equal(first[1], second[1])


@pytest.mark.parametrize("name", NAMES)
def test_an_image_given_as_its_own_positive_counts(name: str) -> None:
    """One published miner returns it."""
    z, labels = vectors(), LABELS["pairs"]
    index = torch.arange(SIZE)
    triplets = Triplets(index, index, (index + 5) % SIZE)
    twin = Pairs(index.repeat(2), torch.cat([index, triplets.negative]), torch.arange(2 * SIZE) < SIZE)
    found, wanted = (value_and_gradient(losses.build(name), z, labels, tuples) for tuples in (triplets, twin))
    torch.testing.assert_close(found, wanted)
    without = Pairs(index, triplets.negative, torch.zeros(SIZE, dtype=torch.bool))
    if name in ("info-nce", "lifted-structure", "circle", "multi-similarity"):
        assert found[0] > value_and_gradient(losses.build(name), z, labels, without)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_copies_do_not_count_by_rounding(dtype: torch.dtype) -> None:
    """A copy is at distance zero, so the mean over positives above zero is one over those that are none."""
    z = torch.nn.functional.normalize(torch.randn(32, 64, generator=torch.Generator().manual_seed(0)), dim=1).to(dtype)
    z, labels = z.repeat_interleave(2, 0), torch.arange(64) // 4
    value, _ = value_and_gradient(losses.build("contrastive", margin=0), z, labels)
    apart = (z[:, None] - z[None]).square().sum(2)
    among = (labels[:, None] == labels[None]) & (apart > 1e-3)
    torch.testing.assert_close(value, apart[among].mean())
