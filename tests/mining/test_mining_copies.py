"""Copies of one image in a batch are no positives of each other."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from holdfast import mining
from holdfast.errors import DataError
from holdfast.mining import Miner, Pairs, Triplets, Tuples

MINERS = {name: mining.build(name) for name in mining.names()}
MINERS["easy multi-similarity"] = mining.build("easy-positive", negative="multi-similarity")
WITH_VARIANT = ["random", "semihard", "softhard", "distance", "hardest"]


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def drawn_twice(classes: int = 5, images: int = 2, draws: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Classes of few images, each drawn as often as it takes; the views of an image lie close together."""
    labels = torch.arange(classes).repeat_interleave(draws)
    numbers = labels * images + torch.arange(draws).repeat(classes) % images
    seen = torch.randn(classes * images, 6, generator=seeded())[numbers]
    z = seen + 0.01 * torch.randn(len(labels), 6, generator=seeded(1))
    return torch.nn.functional.normalize(z, dim=1), labels, numbers


def positives(tuples: Tuples) -> tuple[Tensor, Tensor]:
    if isinstance(tuples, Pairs):
        return tuples.anchor[tuples.same], tuples.other[tuples.same]
    return tuples.anchor, tuples.positive


@pytest.mark.parametrize("name", MINERS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_positive_is_a_copy_in_any_batch(name: str, data: st.DataObject) -> None:
    numbers = torch.tensor(data.draw(st.lists(st.integers(0, 6), min_size=2, max_size=14)))
    labels = numbers // 3
    if len(labels.unique()) == 1:
        return
    z = torch.nn.functional.normalize(
        torch.randn(len(labels), 4, generator=seeded(data.draw(st.integers(0, 9)))), dim=1
    )
    tuples = MINERS[name](z, labels, seeded(), numbers)
    anchor, positive = positives(tuples)
    assert (labels[anchor] == labels[positive]).all()
    assert (numbers[anchor] != numbers[positive]).all()
    if isinstance(tuples, Triplets):
        several = [i for i in range(len(labels)) if len(numbers[labels == labels[i]].unique()) > 1]
        assert tuples.anchor.tolist() == several


def test_the_easy_positive_is_the_nearest_of_the_other_images() -> None:
    z, labels, numbers = drawn_twice()
    blind = mining.build("ephn")(z, labels)
    assert (numbers[blind.anchor] == numbers[blind.positive]).all(), "these copies are not the nearest anyway"
    found = mining.build("ephn")(z, labels, images=numbers)
    for anchor, positive in zip(found.anchor.tolist(), found.positive.tolist(), strict=True):
        others = [j for j in range(len(z)) if labels[j] == labels[anchor] and numbers[j] != numbers[anchor]]
        assert positive == min(others, key=lambda j: float((z[anchor] - z[j]).norm()))


@pytest.mark.parametrize("name", MINERS)
def test_numbers_that_all_differ_change_nothing(name: str) -> None:
    z, labels, _ = drawn_twice()
    plain = MINERS[name](z, labels, seeded(3))
    numbered = MINERS[name](z, labels, seeded(3), torch.arange(len(z)).flip(0))
    assert all(torch.equal(a, b) for a, b in zip(plain, numbered, strict=True))


@pytest.mark.parametrize("name", WITH_VARIANT)
def test_the_published_variant_takes_no_notice(name: str) -> None:
    z, labels, numbers = drawn_twice()
    miner = mining.build(name, variant="published")
    plain, numbered = miner(z, labels, seeded(3)), miner(z, labels, seeded(3), numbers)
    assert all(torch.equal(a, b) for a, b in zip(plain, numbered, strict=True))


def test_first_anchors_ask_for_a_partner_of_the_class_which_may_be_a_copy() -> None:
    z, labels, numbers = drawn_twice()
    numbers = numbers.view(-1, 2, 2).mT.flatten()  # copies side by side
    found = mining.build("random", anchors="first")(z, labels, seeded(), numbers)
    assert found.anchor.tolist() == list(range(0, len(z), 2))
    assert (numbers[found.anchor] != numbers[found.positive]).all()


@pytest.mark.parametrize("name", MINERS)
def test_a_class_of_one_image_has_no_positive(name: str) -> None:
    z, labels, _ = drawn_twice()
    assert positives(MINERS[name](z, labels, seeded(), labels))[0].numel() == 0


def test_numbers_must_fit_the_embeddings() -> None:
    z, labels, numbers = drawn_twice()
    with pytest.raises(DataError, match="image numbers"):
        mining.build("random")(z, labels, images=numbers[:-1])


def test_a_miner_that_takes_no_numbers_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError, match=r"Old\.__call__ must take .*images"):

        class Old(Miner):
            def __call__(self, embeddings: Tensor, labels: Tensor, generator: Generator | None = None) -> Tuples:
                raise NotImplementedError
