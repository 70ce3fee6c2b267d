from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.errors import RecipeError
from holdfast.training.recipe import Recipe, load_recipe, read_plain, shipped, summary


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_recipe_resolves_and_explains_itself(name: str) -> None:
    recipe = load_recipe(name)
    assert len(summary(name)) > 20
    assert load_recipe(recipe.plain()) == recipe


def test_the_resolved_recipe_is_a_fixed_point_through_yaml(tiny: dict[str, Any]) -> None:
    recipe = load_recipe(tiny)
    again = load_recipe(yaml.safe_load(recipe.yaml()))
    assert again == recipe
    assert again.digest() == recipe.digest()
    assert recipe.plain()["optimizer"]["betas"] == [0.9, 0.999], "defaults are written out"


def test_overrides(tiny: dict[str, Any]) -> None:
    recipe = load_recipe(
        tiny, data="digits", settings=["optimizer.lr=1/1000", "loss.name=triplet", "loss.margin=0.1"], seed=7
    )
    assert recipe.optimizer.plain["lr"] == pytest.approx(1e-3)
    assert recipe.loss.plain["margin"] == 0.1
    assert (recipe.data.name, recipe.seed) == ("digits", 7)
    assert recipe.loss.plain["miner"] is None, "arguments of the replaced loss are gone"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimiser": "adam"}, "did you mean 'optimizer'"),
        ({"optimizer": {"name": "adam", "lrr": 1}}, r"optimizer: unknown key 'lrr'; did you mean 'lr'"),
        ({"optimizer": {"name": "adamm"}}, "did you mean 'adam'"),
        ({"optimizer": {"name": "adam", "lr": "fast"}}, r"optimizer\.lr: expected a number, got 'fast'"),
        ({"optimizer": {"name": "adam", "lr": -1}}, "must be positive"),
        ({"optimizer": {"name": "adam", "betas": [0.9, 1]}}, r"betas are decay rates in \[0, 1\), got 0\.9 and 1"),
        ({"optimizer": {"name": "adamw", "betas": [-0.1, 0.9]}}, "betas are decay rates"),
        ({"optimizer": {"name": "adamw", "lr": -1}}, "must be positive"),
        ({"model": {"dim": 0}}, "model: dim must be 1 or more, got 0"),
        ({"model": {"size": -1}}, "model: size must be 1 or more"),
        ({"model": {"canvas": 0}}, "model: canvas must be 1 or more"),
        ({"epochs": "ten"}, "epochs: expected a whole number"),
        ({"epochs": 0}, "^recipe: epochs must be 1 or more"),
        ({"epochs": True}, "epochs: expected a whole number"),
        ({"batch": {"classes": 1}}, "at least 2 classes"),
        ({"precision": "float16"}, r"precision: unknown value 'float16'"),
        ({"loss": {"name": "margin", "miner": "semi-hard"}}, "did you mean 'semihard'"),
        ({"loss": 3}, "expected a loss name"),
        ({"model": {"batchnorm": "frozen"}}, r"model\.batchnorm: unknown value 'frozen'; did you mean 'freeze'"),
        ({"ema": 1.0}, "ema is a decay"),
        ({"schedule": {"name": "cosine", "warmup": 2}}, "warmup"),
        ({"data": {"name": "glyphs", "sise": 3}}, "did you mean 'size'"),
    ],
)
def test_mistakes_are_refused_with_the_way_out(tiny: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as error:
        load_recipe({**tiny, **change})
    assert "\n" not in str(error.value)


def test_unreadable_recipes(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="did you mean 'pocket'"):
        read_plain("pockett")
    with pytest.raises(RecipeError, match="no recipe at"):
        read_plain(tmp_path / "none.yaml")
    for text, message in (("a: [", "not valid YAML"), ("- 1", "must hold keys")):
        file = tmp_path / "bad.yaml"
        file.write_text(text)
        with pytest.raises(RecipeError, match=message):
            read_plain(file)
    with pytest.raises(RecipeError, match="which images"):
        load_recipe({"loss": "triplet"})
    with pytest.raises(RecipeError, match=r"key\.path=value"):
        load_recipe("pocket", settings=["epochs"])


def test_recipes_are_values(tiny: dict[str, Any]) -> None:
    assert isinstance(load_recipe(load_recipe(tiny)), Recipe)
    before = str(tiny)
    load_recipe(tiny, settings=["epochs=9"])
    assert str(tiny) == before
