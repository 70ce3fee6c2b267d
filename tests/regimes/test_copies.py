"""Every regime tells its miners which image of the dataset a row shows."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from regime_cases import batch, context, embedder, train_a_few
from torch import Generator, Tensor

from holdfast import mining, regimes
from holdfast.mining import Miner, Tuples
from holdfast.regimes import Batch

BUDGET = {"eps": 0.05, "step": 0.02, "steps": 2}
STAX = {"name": "stax", "goal": "single-target", "budget": BUDGET}
REGIMES: dict[str, dict[str, Any]] = {
    "standard": {},
    "adml": {"budget": BUDGET},
    "at": {"budget": BUDGET},
    "est": {"budget": BUDGET},
    "mdprop": {"distributions": [STAX]},
}
ON_TRIPLETS: dict[str, dict[str, Any]] = {
    "act": {"budget": BUDGET},
    "hm": {"budget": BUDGET, "destination": 0.1},
    "hm with ics": {"budget": BUDGET, "destination": 0.1, "ics": 0.5},
    "hm apart": {"budget": BUDGET, "destination": 0.1, "separate": True},
    "free-hm": {},
    "tride": {"budget": BUDGET},
}


class Spy(Miner):
    """Mines nothing of its own and keeps what it is told."""

    def __init__(self, name: str = "random") -> None:
        self.miner = mining.build(name)
        self.triplets = self.miner.triplets
        self.told: list[tuple[Tensor, Tensor | None]] = []

    def __call__(
        self, embeddings: Tensor, labels: Tensor, generator: Generator | None = None, images: Tensor | None = None
    ) -> Tuples:
        self.told.append((labels, images))
        return self.miner(embeddings, labels, generator, images)


def with_copies() -> Batch:
    """Four classes of two images, the first image drawn twice."""
    plain = batch()
    numbers = torch.arange(len(plain.labels)) + 70
    numbers[1::3] = numbers[0::3]
    return dataclasses.replace(plain, numbers=numbers)


def stepped(name: str, arguments: dict[str, Any], spy: Spy) -> Batch:
    regime = regimes.build(name.split()[0], **arguments)
    given = with_copies()
    regime.step(context(embedder(sets=regime.sets()), "multi-similarity", miner=spy), given)
    return given


@pytest.mark.parametrize("name", REGIMES)
def test_the_miner_of_the_loss_knows_the_images_of_the_batch(name: str) -> None:
    spy = Spy("multi-similarity")
    given = stepped(name, REGIMES[name], spy)
    assert spy.told
    for labels, images in spy.told:
        assert torch.equal(labels, given.labels)
        assert images is not None
        assert torch.equal(images, given.numbers)


@pytest.mark.parametrize("name", ON_TRIPLETS)
def test_source_and_loss_know_the_images_of_moved_triplets(name: str) -> None:
    source, spy = Spy(), Spy("multi-similarity")
    given = stepped(name, {**ON_TRIPLETS[name], "source": source}, spy)
    [(_, images)] = source.told
    assert images is not None
    assert torch.equal(images, given.numbers)
    of_image = dict(zip(given.numbers.tolist(), given.labels.tolist(), strict=True))
    for labels, numbers in spy.told:
        assert numbers is not None
        assert labels.tolist() == [of_image[number] for number in numbers.tolist()]
    slots = max(spy.told, key=lambda told: len(told[0]))[1]
    assert len(slots) == 3 * len(given.labels)
    anchors, positives = slots.chunk(3)[:2] if name == "tride" else (slots[0::3], slots[1::3])
    assert torch.equal(anchors, given.numbers), "each image is the anchor of one triplet here"
    assert (anchors != positives).all(), "a copy was mined as positive"


def test_a_destination_that_mines_knows_them_too() -> None:
    source, destination = Spy(), Spy("hardest")
    given = stepped("hm", {"budget": BUDGET, "source": source, "destination": destination}, Spy("multi-similarity"))
    [(_, images)] = destination.told
    assert torch.equal(images, given.numbers)


def test_the_released_joint_loss_has_an_image_and_its_adversary_as_positives() -> None:
    spy = Spy("multi-similarity")
    stepped("mdprop", {"distributions": [STAX], "variant": "released"}, spy)
    [(labels, images)] = spy.told
    assert images is None
    assert len(labels) == 2 * len(with_copies().labels)


def test_parts_of_a_batch_keep_their_numbers() -> None:
    given = with_copies()
    first, second = given.parts(2)
    assert torch.equal(torch.cat((first.numbers, second.numbers)), given.numbers)
    assert torch.equal(second.numbers_of(torch.tensor([1, 0])), given.numbers[[7, 6]])


@pytest.mark.parametrize("loss", ["triplet", "multi-similarity"])
@pytest.mark.parametrize("name", [*REGIMES, *ON_TRIPLETS])
def test_every_regime_learns_beside_a_memory(name: str, loss: str) -> None:
    regime = regimes.build(name.split()[0], **(REGIMES | ON_TRIPLETS)[name])
    model = embedder(sets=regime.sets())
    made = context(model, loss, memory=512)
    values = train_a_few(regime, made, model, steps=2)
    assert len(made._criterion.loss.queue) > 0
    assert all(math.isfinite(value) for value in values)
