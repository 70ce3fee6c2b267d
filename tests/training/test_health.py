from __future__ import annotations

import pytest
import torch
from torch import nn

from holdfast.errors import TrainingError
from holdfast.training.health import STUCK_AFTER, CollapseWatch, Finite


def test_a_single_bad_loss_is_remembered() -> None:
    finite = Finite(torch.device("cpu"))
    finite.watch(torch.tensor(1.0))
    finite.check(1, "")
    finite.watch(torch.tensor(float("nan")))
    finite.watch(torch.tensor(1.0))
    with pytest.raises(TrainingError, match=r"by step 3; kept\. Lower optimizer\.lr"):
        finite.check(3, "kept")


def test_bad_weights_are_found() -> None:
    model = nn.Linear(2, 2)
    Finite(torch.device("cpu")).check(1, "", model)
    with torch.no_grad():
        model.bias[1] = torch.inf
    with pytest.raises(TrainingError, match="NaN or infinite"):
        Finite(torch.device("cpu")).check(1, "", model)


def test_collapse_is_announced_once_and_only_when_it_lasts() -> None:
    spread = nn.functional.normalize(torch.randn(32, 8), dim=1)
    point = nn.functional.normalize(torch.ones(32, 8) + 1e-4 * torch.randn(32, 8), dim=1)
    watch = CollapseWatch(None, "lower the rate")
    assert [watch.look(0.3, point) for _ in range(STUCK_AFTER - 1)] == [None] * (STUCK_AFTER - 1)
    assert watch.look(0.3, spread) is None
    said = [watch.look(0.3, point) for _ in range(3 * STUCK_AFTER)]
    assert sum(text is not None for text in said) == 1
    assert "nearly the same vector" in str(said[STUCK_AFTER - 1])


def test_a_watch_goes_on_where_another_stopped() -> None:
    point = nn.functional.normalize(torch.ones(32, 8), dim=1)
    first = CollapseWatch(None, "lower the rate")
    assert all(first.look(0.3, point) is None for _ in range(STUCK_AFTER - 1))
    second = CollapseWatch(None, "lower the rate", first.state())
    assert "nearly the same vector" in str(second.look(0.3, point))
    assert second.collapsed
    third = CollapseWatch(None, "lower the rate", second.state())
    assert third.look(0.3, point) is None, "it was said before"


def test_a_loss_stuck_at_its_margin_is_announced() -> None:
    spread = nn.functional.normalize(torch.randn(32, 8), dim=1)
    watch = CollapseWatch(0.2, "lower the rate")
    said = [watch.look(0.2001, spread) for _ in range(STUCK_AFTER)]
    assert "margin" in str(said[-1])
    healthy = CollapseWatch(0.2, "lower the rate")
    assert all(healthy.look(0.15, spread) is None for _ in range(3 * STUCK_AFTER))
