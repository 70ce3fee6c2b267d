from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from holdfast import attacks
from holdfast.attacks import References
from holdfast.errors import DataError, RecipeError


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


@pytest.mark.parametrize("temperature", [1.0, 40.0, 1e4])
def test_soft_misrank_equals_a_loop(gallery: References, temperature: float) -> None:
    rows = torch.tensor([3, 17, 4, 29])
    z = F.normalize(torch.randn(4, 5, dtype=torch.float64), dim=1).requires_grad_()
    loss = attacks.build("soft-misrank", temperature=temperature).bind(gallery, rows).loss(z)
    wanted = []
    for i, row in enumerate(rows.tolist()):
        away = (z[i] - gallery.vectors).norm(dim=1)
        wrong = torch.tensor([j % 5 != row % 5 for j in range(30)])
        right = torch.tensor([j % 5 == row % 5 and j != row for j in range(30)])
        soft = [-torch.logsumexp(-temperature * away[which], 0) / temperature for which in (wrong, right)]
        wanted.append(soft[0] - soft[1])
    torch.testing.assert_close(loss, torch.stack(wanted))
    slopes = [torch.autograd.grad(values.sum(), z)[0] for values in (loss, torch.stack(wanted))]
    torch.testing.assert_close(slopes[0], slopes[1])


def test_soft_misrank_tends_to_misrank_and_leaves_lone_images_alone(gallery: References) -> None:
    rows, z = torch.arange(30), F.normalize(torch.randn(30, 5, dtype=torch.float64), dim=1)
    hard = attacks.build("misrank").bind(gallery, rows).loss(z)
    torch.testing.assert_close(
        attacks.build("soft-misrank", temperature=1e6).bind(gallery, rows).loss(z), hard, atol=1e-4, rtol=0
    )
    alone = References(gallery.vectors, torch.arange(30))
    z.requires_grad_()
    loss = attacks.build("soft-misrank").bind(alone, rows).loss(z)
    assert not loss.any()
    assert not torch.autograd.grad(loss.sum(), z)[0].any()


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_a_temperature_is_above_zero(temperature: float) -> None:
    with pytest.raises(RecipeError, match="temperature"):
        attacks.SoftMisrank(temperature)


def test_until_missed_rests_on_what_is_broken(gallery: References) -> None:
    rows, z = torch.arange(30), F.normalize(torch.randn(30, 5, dtype=torch.float64), dim=1)
    margin = attacks.build("misrank").bind(gallery, rows).loss(z)
    for name in ("misrank", "es", "nearest-wrong"):
        goal = attacks.build(name).bind(gallery, rows)
        until = attacks.UntilMissed(goal, gallery, rows)
        broken = margin < -until.clearly
        assert bool(broken.any())
        torch.testing.assert_close(until.loss(z), goal.loss(z).masked_fill(broken, until.floor))
        assert torch.equal(until.take(slice(3, 9)).loss(z[3:9]), until.loss(z)[3:9])
        assert torch.equal(until.measure(z)["hit"], (margin > 0).to(z.dtype))


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
