from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from holdfast.audit import ers_score
from holdfast.audit.ers import SCORES, Ers
from holdfast.errors import DataError

KEYS = ("CA+", "CA-", "QA+", "QA-", "TMA", "ES:D", "ES:R", "LTM", "GTM", "GTT")

# The HM paper's comparison table: the ten attack columns and the published ERS of every row.
PUBLISHED = [
    "0.0 100.0 0.0 99.9 0.883 1.762 0.0 0.0 14.1 0.0 3.8",
    "0.5 97.3 0.5 91.3 0.875 1.325 3.9 0.4 14.9 0.0 7.9",
    "13.7 46.8 12.6 39.3 0.547 0.902 13.6 9.8 21.9 1.3 31.3",
    "12.7 46.4 11.6 39.9 0.567 0.783 16.8 11.9 27.9 1.4 32.4",
    "12.9 40.9 14.7 33.7 0.806 0.487 17.1 13.2 26.3 2.3 33.5",
    "2.7 97.9 0.4 97.3 0.848 1.576 1.4 0.0 4.0 0.0 5.3",
    "15.5 37.7 15.1 32.2 0.472 0.821 11.1 9.4 14.9 1.0 33.9",
    "14.7 39.6 15.6 34.2 0.523 0.736 16.5 15.0 26.7 2.9 35.9",
    "15.5 37.7 16.6 30.9 0.753 0.506 17.9 16.7 27.3 2.9 36.0",
    "0.2 100.0 0.1 99.6 0.874 1.816 0.0 0.0 13.4 0.0 3.6",
    "0.1 99.9 0.1 98.1 0.902 1.681 0.7 0.2 15.4 0.0 4.4",
    "19.3 33.1 20.3 32.3 0.413 0.760 18.4 15.0 28.6 1.2 39.8",
    "15.3 32.0 17.9 33.9 0.463 0.653 23.4 28.5 44.6 5.8 42.4",
    "21.0 23.3 23.1 22.2 0.698 0.415 31.2 38.0 47.8 9.6 47.9",
    "1.2 98.1 0.4 91.8 0.880 1.281 2.9 0.7 8.2 0.0 7.3",
    "18.0 32.3 17.5 30.5 0.383 0.763 16.3 15.3 20.7 1.6 38.6",
    "17.4 28.2 18.2 28.8 0.426 0.613 27.1 30.7 42.3 7.9 44.9",
    "19.3 25.9 19.6 25.7 0.650 0.446 30.3 36.7 46.0 8.8 46.0",
    "0.1 99.3 0.2 99.1 0.845 1.685 0.0 0.0 6.3 0.0 4.0",
    "6.4 69.7 3.9 64.6 0.611 1.053 3.8 2.2 10.2 1.3 19.0",
    "24.8 10.7 25.4 8.2 0.321 0.485 15.4 17.7 25.1 11.3 49.5",
    "29.9 4.7 31.6 3.6 0.455 0.283 39.3 40.9 38.8 43.0 61.7",
    "32.5 4.8 32.4 3.5 0.586 0.239 38.6 39.8 38.3 44.5 61.2",
    "12.5 43.6 10.6 34.8 0.468 0.830 9.6 7.2 17.3 3.8 31.7",
    "24.1 10.5 22.7 9.4 0.253 0.532 21.2 21.6 27.8 15.3 50.8",
    "30.6 4.7 31.2 3.5 0.466 0.266 38.6 40.3 38.6 44.3 61.8",
    "32.0 4.2 33.7 3.0 0.606 0.207 39.1 39.8 37.9 45.6 61.6",
]


@pytest.mark.parametrize("row", PUBLISHED)
def test_every_published_row_is_reproduced(row: str) -> None:
    *scores, published = map(float, row.split())
    assert ers_score(dict(zip(KEYS, scores, strict=True))) == pytest.approx(published, abs=0.1)


def test_all_rows_are_there() -> None:
    assert len(PUBLISHED) == 27


def test_the_score_of_a_set_is_the_mean_over_its_images() -> None:
    per_image = {key: torch.rand(50, dtype=torch.float64) for key in KEYS}
    of_means = ers_score({key: float(values.mean()) for key, values in per_image.items()})
    assert float(ers_score(per_image).mean()) == pytest.approx(of_means)


@pytest.mark.parametrize(
    ("size", "asked", "eps", "step"),
    [(224, None, 8, 3), (28, None, 77, 3), (224, 4 / 255, 4, 1.5), (28, 8 / 255, 8, 24 / 77)],
)
def test_budgets(size: int, asked: float | None, eps: float, step: float) -> None:
    """Published: 8/255 and 77/255, both in steps of 3/255; another radius keeps its proportion to the step."""
    budget = Ers(eps=asked).budget(SimpleNamespace(size=size, paced=lambda budget: budget))  # type: ignore[arg-type]
    assert (255 * budget.eps, 255 * budget.step_size, budget.steps) == pytest.approx((eps, step, 32))


def test_a_missing_score_is_named() -> None:
    with pytest.raises(DataError, match="missing: GTT"):
        ers_score(dict.fromkeys(KEYS[:-1], 0.0))


@pytest.mark.parametrize("mode", ["fixed", "published"])
def test_ers_is_that_of_the_printed_figures_where_some_images_have_not_all_ten(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image alone in its class has no ES:R, LTM and GTM."""
    generator = torch.Generator().manual_seed(0)
    found: dict[str, dict[str, torch.Tensor]] = {}
    for key, score in SCORES.items():
        values = torch.rand(40, generator=generator)
        values[20:] = torch.nan if key in ("ES:R", "LTM", "GTM") else values[20:] / 4
        found.setdefault(score.goal, {})[score.measure] = values
    monkeypatch.setattr("holdfast.audit.figures.Figures.clean", lambda *_: None)
    figures = Ers(mode).figures(SimpleNamespace(seed=0), found)  # type: ignore[arg-type]
    printed = {key: figures.values[key] for key in SCORES}
    assert figures.values["ERS"] == pytest.approx(ers_score(printed))
    low, high = figures.intervals["ERS"]
    assert low < figures.values["ERS"] < high
