"""Where recipes differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.report.contestants import Contestant, Document
from holdfast.report.figures import NONE


def recipe_differences(runs: Sequence[Contestant]) -> list[tuple[str, list[str]]]:
    """Every key whose value is not the same in all recipes, with its value in each run.

    A run without a recipe has a dash everywhere and makes no difference.
    """
    recipes = [flat(run.found.recipe) for run in runs]
    known = [recipe for recipe in recipes if recipe]
    keys = dict.fromkeys(key for recipe in known for key in recipe)
    different = [key for key in keys if len({repr(recipe.get(key, NONE)) for recipe in known}) > 1]
    return [(key, [_written(recipe.get(key, NONE)) for recipe in recipes]) for key in different]


def flat(nested: Document, where: str = "") -> Document:
    """A recipe as key.path → value."""
    found: Document = {}
    for key, value in nested.items():
        path = f"{where}{key}"
        found |= flat(value, f"{path}.") if isinstance(value, dict) and value else {path: value}
    return found


def _written(value: Any) -> str:
    """As YAML has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
