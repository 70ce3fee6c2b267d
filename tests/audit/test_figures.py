from __future__ import annotations

import math

import pytest
import torch

from holdfast.audit.figures import Figures


def test_means_skip_what_does_not_count() -> None:
    figures = Figures(0)
    figures.mean("x", torch.tensor([1.0, math.nan, 3.0]), scale=10)
    assert figures.values["x"] == pytest.approx(20)
    figures.mean("y", torch.tensor([math.nan]))
    assert figures.values["y"] is None
    assert "gallery" in figures.reasons["y"]


def test_a_share_of_none_is_not_certain() -> None:
    figures = Figures(0)
    figures.mean("none", torch.tensor([0.0] * 40 + [math.nan]), scale=100)
    figures.mean("some", torch.tensor([0.0] * 70 + [1.0] * 30), scale=100)
    figures.mean("all", torch.ones(40), scale=100)
    assert figures.values["none"] == 0
    assert figures.intervals["none"] == pytest.approx((0, 8.76), abs=0.01)
    assert figures.intervals["some"] == pytest.approx((21.89, 39.58), abs=0.01)
    assert figures.intervals["all"] == pytest.approx((91.24, 100), abs=0.01)
    figures.mean("unknown", torch.tensor([math.nan]), scale=100)
    assert figures.values["unknown"] is None


def test_medians_with_infinite_values_stay_writable() -> None:
    figures = Figures(0)
    figures.median("mostly", torch.tensor([0.01] * 30 + [math.inf] * 25), "too many")
    assert figures.values["mostly"] == pytest.approx(0.01)
    low, high = figures.intervals["mostly"]
    assert low == pytest.approx(0.01)
    assert high is None, "infinite in JSON"
    figures.median("hardly", torch.tensor([0.01] * 3 + [math.inf] * 25), "too many")
    assert (figures.values["hardly"], figures.reasons["hardly"]) == (None, "too many")
    figures.median("never", torch.tensor([math.nan]), "too many")
    assert figures.values["never"] is None


def test_intervals_of_set_statistics_hold_their_value() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(120, 8, generator=generator), dim=1)
    labels = torch.arange(120) // 6
    figures = Figures(0)
    figures.clustering("NMI", vectors, labels)
    figures.spread_ratio("pi_ratio", vectors, labels)
    for key in ("NMI", "pi_ratio"):
        low, high = figures.intervals[key]
        assert low < figures.values[key] < high  # type: ignore[operator]


@pytest.mark.parametrize(("labels", "why"), [(torch.arange(20), "20 clusters"), (torch.zeros(20), "one class")])
def test_clusters_that_say_nothing_have_no_nmi(labels: torch.Tensor, why: str) -> None:
    figures = Figures(0)
    figures.clustering("NMI", torch.randn(20, 4, generator=torch.Generator().manual_seed(0)), labels)
    assert figures.values["NMI"] is None
    assert why in figures.reasons["NMI"]
