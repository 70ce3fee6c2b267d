"""Budgets: recipes, units, rules for what is left out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from holdfast.attacks import Budget
from holdfast.config import instantiate, resolve
from holdfast.errors import RecipeError
from holdfast.run_files import eps_words


def test_recipe_block() -> None:
    budget = instantiate(Budget, {"eps": "8/255", "step": "1/255", "steps": 8})
    assert budget == Budget(eps=8 / 255, step=1 / 255, steps=8)
    assert resolve(Budget, {"eps": "8/255"})["eps"] == 8 / 255
    assert instantiate(Budget, resolve(Budget, {"eps": 0.01, "units": "normalized"})).units == "normalized"
    with pytest.raises(RecipeError, match="did you mean 'steps'"):
        instantiate(Budget, {"eps": 0.1, "step_s": 3})


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"eps": -0.1}, "budget.eps"),
        ({"eps": float("nan")}, "budget.eps"),
        ({"eps": 0.1, "step": -1.0}, "budget.step"),
        ({"eps": 0.1, "steps": 0}, "budget.steps"),
        ({"eps": 8}, "did you mean 8/255"),
        ({"eps": 0.1, "start_radius": 0.05}, "start: uniform"),
        ({"eps": 0.1, "start": "uniform", "start_radius": 0.2}, "must not exceed"),
        ({"eps": 0.1, "norm": "Linf"}, "budget.norm.*did you mean 'linf'"),
        ({"eps": 0.1, "method": "PGD"}, "budget.method"),
        ({"eps": 0.1, "start": "random"}, "budget.start"),
        ({"eps": 0.1, "units": "pixels"}, "budget.units.*did you mean 'pixel'"),
    ],
)
def test_impossible_budgets(arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(RecipeError, match=word) as caught:
        Budget(**arguments)
    assert "\n" not in str(caught.value)


def test_presets() -> None:
    assert Budget.fgsm(0.1) == Budget(eps=0.1, step=0.1, steps=1)
    assert Budget.bim(0.1, 5).start == "zero"
    assert Budget.pgd(0.1, 5, 0.02) == Budget(eps=0.1, step=0.02, steps=5, start="uniform")


def test_step_left_out() -> None:
    assert Budget(eps=0.2, steps=1).step_size == 0.2
    assert Budget(eps=0.2, steps=2).step_size == 0.2
    assert Budget(eps=0.2, steps=10).step_size == pytest.approx(0.05)
    assert Budget(eps=0.2, method="apgd").step_size == 0.4
    assert Budget(eps=0.2, step=0.01, method="apgd").step_size == 0.01


def test_units_are_converted_once() -> None:
    std = (0.2, 0.3, 0.4)
    given = Budget(eps=0.1, step=0.01, start="uniform", start_radius=0.05, units="normalized")
    pixel = given.in_pixels(std)
    assert pixel.units == "pixel"
    assert (pixel.eps, pixel.step, pixel.start_radius) == pytest.approx((0.03, 0.003, 0.015))
    assert pixel.in_pixels(std) is pixel
    assert given.in_pixels(torch.tensor(std).view(1, 3, 1, 1)).eps == pytest.approx(0.03)
    assert given.in_pixels(0.3).eps == pytest.approx(0.03)
    assert given.eps_in_both(std) == pytest.approx((0.03, 0.1))
    assert pixel.eps_in_both(std) == pytest.approx((0.03, 0.1))


def test_description_names_both_units() -> None:
    line = Budget(eps=8 / 255, steps=32, step=3 / 255).describe(0.25)
    assert line == "pgd linf, eps 0.03137 in pixels (8/255, 0.1255 normalized), 32 steps of 0.01176, zero start"


def test_a_model_that_does_its_own_preprocessing_has_no_normalised_units() -> None:
    line = Budget(eps=8 / 255, steps=32, step=3 / 255).describe(1.0)
    assert line == "pgd linf, eps 0.03137 in pixels (8/255), 32 steps of 0.01176, zero start"
    assert eps_words({"eps_pixel": 8 / 255, "eps_normalized": 8 / 255}) == "8/255"
    assert eps_words({"eps_pixel": 8 / 255, "eps_normalized": 0.137}) == "8/255 (0.137 normalised)"


def test_other_radius_keeps_proportions() -> None:
    budget = Budget(eps=0.1, step=0.02, start="uniform", start_radius=0.05)
    other = budget.with_eps(0.2)
    assert (other.eps, other.step, other.start_radius) == (0.2, 0.04, 0.1)
    assert budget.with_eps(0.0).eps == 0
    assert Budget(eps=0.0).with_eps(0.3).eps == 0.3
    whole = Budget(eps=3 / 255, start="uniform", start_radius=3 / 255)  # times 7/3 is more than 7/255, by rounding
    assert whole.with_eps(7 / 255) == Budget(eps=7 / 255, start="uniform", start_radius=7 / 255)
