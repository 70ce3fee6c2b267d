from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from holdfast import attacks
from holdfast.attacks import References
from holdfast.errors import DataError


@pytest.fixture
def gallery() -> References:
    generator = torch.Generator().manual_seed(1)
    vectors = F.normalize(torch.randn(30, 5, generator=generator, dtype=torch.float64), dim=1)
    return References(vectors, torch.arange(30) % 5)


def test_misrank_equals_a_loop(gallery: References) -> None:
    rows = torch.tensor([3, 17, 4, 29])
    z = F.normalize(torch.randn(4, 5, dtype=torch.float64), dim=1)
    bound = attacks.build("misrank").bind(gallery, rows)
    for i, row in enumerate(rows.tolist()):
        wrong = [float((z[i] - v).norm()) for j, v in enumerate(gallery.vectors) if j % 5 != row % 5]
        right = [float((z[i] - v).norm()) for j, v in enumerate(gallery.vectors) if j % 5 == row % 5 and j != row]
        assert float(bound.loss(z)[i]) == pytest.approx(min(wrong) - min(right))
        assert bool(bound.measure(z)["hit"][i]) == (min(wrong) > min(right))


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_nearest_wrong_equals_a_loop(gallery: References, rank: int) -> None:
    rows = torch.arange(30)
    z = F.normalize(torch.randn(30, 5, dtype=torch.float64), dim=1)
    loss = attacks.build("nearest-wrong", rank=rank).bind(gallery, rows).loss(z)
    for row in range(30):
        nearest: dict[int, tuple[float, int]] = {}
        for j, v in enumerate(gallery.vectors):
            if j % 5 != row % 5:
                away = float((gallery.vectors[row] - v).norm())
                nearest[j % 5] = min(nearest.get(j % 5, (9.0, -1)), (away, j))
        item = sorted(nearest.values())[rank - 1][1]
        assert float(loss[row]) == pytest.approx(float((z[row] - gallery.vectors[item]).norm()))


def test_rank_one_is_gtm(gallery: References) -> None:
    rows, z = torch.arange(30), F.normalize(torch.randn(30, 5, dtype=torch.float64), dim=1)
    wrong = [[v for j, v in enumerate(gallery.vectors) if j % 5 != row % 5] for row in range(30)]
    nearest = [min(wrong[row], key=lambda v: float((clean - v).norm())) for row, clean in enumerate(gallery.vectors)]
    expected = torch.stack([(z[row] - u).norm() for row, u in enumerate(nearest)])
    torch.testing.assert_close(attacks.build("gtm").bind(gallery, rows).loss(z), expected)
    torch.testing.assert_close(attacks.build("nearest-wrong").bind(gallery, rows).loss(z), expected)


def test_too_few_classes(gallery: References) -> None:
    with pytest.raises(DataError, match="fewer than 5 other classes"):
        attacks.build("nearest-wrong", rank=5).bind(gallery, torch.arange(3))
