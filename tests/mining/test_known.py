"""What the host knows of a batch changes nothing but who is asked."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from holdfast import mining
from holdfast.attacks import References, build
from holdfast.losses import NPair
from holdfast.mining import BatchFacts, training_batch

LABELS = torch.tensor([3, 3, 0, 0, 7, 7, 3, 3, 0, 0])
IMAGES = torch.arange(10)


def vectors() -> Tensor:
    drawn = torch.randn(10, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return torch.nn.functional.normalize(drawn, dim=1)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def test_what_is_known() -> None:
    assert BatchFacts.of(LABELS, IMAGES) == BatchFacts(classes=3, complete=True, distinct=True, paired=True)
    copies = torch.tensor([0, 1, 2, 3, 4, 4, 6, 7, 8, 9])
    assert BatchFacts.of(LABELS, copies) == BatchFacts(classes=3, complete=True, distinct=False, paired=True)
    assert BatchFacts.of(LABELS[:-1], IMAGES[:-1]) == BatchFacts(classes=3, complete=True, distinct=True, paired=False)
    assert not BatchFacts.of(LABELS[:5], IMAGES[:5]).complete
    assert not BatchFacts.of(LABELS[:2], IMAGES[:2]).complete


def test_what_is_known_of_several_is_so_in_each() -> None:
    one, copied = BatchFacts(3, complete=True, distinct=True, paired=True), BatchFacts(3, True, False, True)
    assert BatchFacts.of_all([one, one]) == one
    assert BatchFacts.of_all([one, copied]) == copied
    assert BatchFacts.of_all([one, copied._replace(classes=4, paired=False)]) == BatchFacts(None, True, False, False)


@pytest.mark.parametrize("name", ["random", "hardest", "ephn", "distance", "semihard", "softhard", "multi-similarity"])
@pytest.mark.parametrize("images", [IMAGES, torch.tensor([0, 1, 2, 3, 4, 4, 6, 7, 8, 9]), None])
def test_miners_find_the_same(name: str, images: Tensor | None) -> None:
    miner = mining.build(name)
    found = miner(vectors(), LABELS, seeded(), images)
    with training_batch(LABELS, BatchFacts.of(LABELS, IMAGES if images is None else images)):
        known = miner(vectors(), LABELS, seeded(), images)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(found, known, strict=True))


@pytest.mark.parametrize("block", [{"name": "single-target"}, {"name": "multi-target", "targets": 2}])
def test_goals_draw_the_same(block: dict[str, object]) -> None:
    goal = build(str(block.pop("name")), **block)
    references = References(vectors(), LABELS)
    targets = goal.bind(references, IMAGES, seeded()).targets  # type: ignore[attr-defined]
    with training_batch(LABELS, BatchFacts.of(LABELS, IMAGES)):
        known = goal.bind(references, IMAGES, seeded()).targets  # type: ignore[attr-defined]
    assert torch.equal(targets, known)


def test_n_pair_is_the_same() -> None:
    with training_batch(LABELS, BatchFacts.of(LABELS, IMAGES)):
        known = NPair()(vectors(), LABELS)
    torch.testing.assert_close(known, NPair()(vectors(), LABELS))


def test_it_is_known_of_these_labels_alone() -> None:
    others = torch.tensor([3, 3, 0, 0, 7, 5, 3, 3, 0, 0])  # two rows without a positive
    with training_batch(LABELS, BatchFacts.of(LABELS, IMAGES)):
        found = mining.build("random")(vectors(), others, seeded())
    assert found.anchor.tolist() == [0, 1, 2, 3, 6, 7, 8, 9]
