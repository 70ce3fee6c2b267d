"""Recipes: as YAML text, as plain data, as `--set` overrides, and block by block for every family."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

import yaml
from fuzzing import Target, Wrong
from mutations import NUMBERS, WORDS, damaged, damaged_text, encoded

from holdfast.config import instantiate, resolve
from holdfast.data import Augment, Reader
from holdfast.errors import RecipeError
from holdfast.losses import Loss
from holdfast.mining import Miner
from holdfast.regimes import Regime
from holdfast.registry import Registry
from holdfast.training.lr_schedules import Schedule
from holdfast.training.optimizers import Optimizer
from holdfast.training.recipe import Recipe, load_recipe
from holdfast.training.recipe_files import read_plain, shipped
from holdfast.yaml_files import NotYaml, read_yaml

FAMILIES = (Loss, Miner, Regime, Augment, Optimizer, Schedule, Reader)


@functools.cache
def _texts() -> dict[str, str]:
    """Shipped recipes as they would stand in one file each, their bases written out."""
    return {name: yaml.safe_dump({"data": "glyphs", **read_plain(name)}, sort_keys=False) for name in shipped()}


@functools.cache
def _blocks() -> list[tuple[type, dict[str, Any]]]:
    """A resolved block of every method that can stand without arguments."""
    found = []
    for family in FAMILIES:
        registry = Registry.of(family)
        assert registry is not None
        for name in registry.names():
            try:
                found.append((family, resolve(family, {"name": name})))
            except RecipeError:  # needs an argument, such as a folder
                found.append((family, {"name": name}))
    return found


def _text(draw: random.Random, folder: Path) -> None:
    """A YAML file."""
    file = folder / "mine.yaml"
    text = draw.choice(list(_texts().values()))
    if draw.random() < 0.2:
        text = f"base: {draw.choice(shipped())}\n{text}"
    file.write_bytes(encoded(damaged_text(text, draw), draw))
    _sound(load_recipe(file), draw)


def _plain(draw: random.Random, folder: Path) -> None:
    """A dictionary, from Python."""
    plain = damaged(yaml.safe_load(draw.choice(list(_texts().values()))), draw)
    if isinstance(plain, dict):
        _sound(load_recipe(plain), draw)


def _settings(draw: random.Random, folder: Path) -> None:
    """Overrides from the command line."""
    plain = yaml.safe_load(_texts()[draw.choice(shipped())])
    settings = []
    for _ in range(draw.randint(1, 3)):
        path = draw.choice(list(_paths(plain)))
        value = draw.choice(
            (
                draw.choice(WORDS),
                repr(draw.choice(NUMBERS[:11])),
                "1",
                "0.5",
                "[1, 2]",
                "{name: margin}",
                "{a: &x 1, b: *x}",
            )
        )
        setting = f"{path}={value}"
        settings.append(damaged_text(setting, draw) if draw.random() < 0.5 else setting)
    _sound(load_recipe(plain, settings=settings), draw)


def _family(draw: random.Random, folder: Path) -> None:
    """One block of one family."""
    family, block = draw.choice(_blocks())
    changed = damaged(block, draw)
    built = instantiate(family, changed, provided={"classes": 10, "dim": 16, "features": 32})
    if not isinstance(built, family):
        raise Wrong(f"{changed} became a {type(built).__name__}")


def _yaml(draw: random.Random, folder: Path) -> None:
    """YAML text alone: plain data, or one reason why not."""
    text = damaged_text(draw.choice(list(_texts().values())), draw, most=6)
    try:
        _only_plain(read_yaml(text))
    except NotYaml as error:
        if len(str(error)) > 400 or "\n" in str(error):
            raise Wrong(f"no short line: {str(error)[:500]!r}") from error
        raise RecipeError(str(error)) from error


def _only_plain(value: Any) -> None:
    if isinstance(value, dict):
        for part in (*value, *value.values()):
            _only_plain(part)
    elif isinstance(value, (list, tuple, set)):
        for part in value:
            _only_plain(part)
    elif type(value).__module__ not in ("builtins", "datetime"):
        raise Wrong(f"YAML made a {type(value)}")


def _sound(recipe: Recipe, draw: random.Random) -> None:
    """An accepted recipe is the same when its own file is read again."""
    if draw.random() < 0.2:
        again = load_recipe(read_yaml(recipe.yaml()))
        if again.digest() != recipe.digest():
            raise Wrong("a resolved recipe reads back as another one")


def _paths(plain: dict[str, Any], before: str = "") -> Any:
    for key, value in plain.items():
        yield f"{before}{key}"
        if isinstance(value, dict):
            yield from _paths(value, f"{before}{key}.")


TARGETS = (
    Target("recipe-yaml", _yaml, 200),
    Target("recipe-text", _text, 110),
    Target("recipe-plain", _plain, 150),
    Target("recipe-set", _settings, 50),
    Target("recipe-family", _family, 200),
)
