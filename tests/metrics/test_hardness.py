from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize

from holdfast.errors import DataError
from holdfast.metrics import hardness


def pairs(classes: int, dim: int = 8) -> tuple[Tensor, Tensor]:
    """Two images of each class, so that every anchor has one positive only."""
    generator = Generator().manual_seed(0)
    labels = torch.arange(classes).repeat(2)
    centres = torch.randn(classes, dim, generator=generator)
    return normalize(centres[labels] + 0.5 * torch.randn(2 * classes, dim, generator=generator), dim=1), labels


def by_loop(vectors: Tensor, labels: Tensor) -> tuple[float, float]:
    """Mean hardness with the nearest negative and with the average one."""
    hardest, average = [], []
    for i in range(len(labels)):
        to = (vectors - vectors[i]).norm(dim=1)
        positive = [to[j].item() for j in range(len(labels)) if labels[j] == labels[i] and j != i]
        negative = [to[j].item() for j in range(len(labels)) if labels[j] != labels[i]]
        hardest.append(positive[0] - min(negative))
        average.append(positive[0] - sum(negative) / len(negative))
    return sum(hardest) / len(hardest), sum(average) / len(average)


def test_equals_a_loop_when_a_batch_holds_everything() -> None:
    vectors, labels = pairs(10)
    nearest, average = by_loop(vectors, labels)
    values = hardness(vectors, labels, ("hardest", "random"), batch=20, batches=200)
    assert values["hardness/hardest"] == pytest.approx(nearest, abs=1e-5)
    assert values["hardness/random"] == pytest.approx(average, abs=0.02)


def test_miners_differ_as_their_names_say() -> None:
    vectors, labels = pairs(80)
    values = hardness(vectors, labels)
    assert list(values) == [f"hardness/{name}" for name in ("random", "semihard", "softhard", "distance", "hardest")]
    easy, hard = values["hardness/random"], values["hardness/hardest"]
    assert easy is not None
    assert hard is not None
    assert all(easy - 0.05 < value < hard + 1e-6 for value in values.values() if value is not None)


def test_one_seed_one_answer() -> None:
    vectors, labels = pairs(40)
    first = hardness(vectors, labels, batch=24, seed=1, batches=3)
    assert first == hardness(vectors, labels, batch=24, seed=1, batches=3)
    assert first != hardness(vectors, labels, batch=24, seed=2, batches=3)


def test_classes_without_enough_images_are_left_out() -> None:
    vectors, labels = pairs(6)
    lonely = torch.cat([vectors, -vectors[:1]])
    extended = torch.cat([labels, torch.tensor([99])])
    whole = hardness(vectors, labels, ("hardest",), batch=12)
    assert hardness(lonely, extended, ("hardest",), batch=112) == pytest.approx(whole, abs=1e-6)


def test_undefined_without_two_full_classes_or_unit_vectors() -> None:
    vectors, labels = pairs(3)
    single = hardness(vectors, torch.arange(len(vectors)))
    assert set(single.values()) == {None}
    assert "fewer than two classes" in single.reasons["hardness/random"]
    longer = hardness(3 * vectors, labels)
    assert set(longer.values()) == {None}
    assert "unit" in longer.reasons["hardness/random"]


def test_mistakes_get_one_line() -> None:
    vectors, labels = pairs(4)
    with pytest.raises(DataError, match="returns pairs"):
        hardness(vectors, labels, ("multi-similarity",))
    with pytest.raises(DataError, match="per_class"):
        hardness(vectors, labels, per_class=1)
