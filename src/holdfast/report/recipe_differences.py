"""Where recipes differ, and what models made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.report.formatting import NONE, setting
from holdfast.report.runs import ComparedRun, Document
from holdfast.report.sections.public import public_path
from holdfast.report.sections.recipe import name_of


def recipe_differences(runs: Sequence[ComparedRun]) -> list[tuple[str, list[str]]]:
    """Every key whose value is not the same in all recipes, with its value in each run.

    A run without a recipe has a dash everywhere and makes no difference. Where lists name different methods, the
    settings of those are left out. How models saw the images comes last: a recipe may leave that to the backbone.
    """
    recipes = [flat(run.files.recipe) for run in runs]
    known = [recipe for recipe in recipes if recipe]
    keys = dict.fromkeys(key for recipe in known for key in recipe)
    different = [key for key in keys if len({repr(recipe.get(key, NONE)) for recipe in known}) > 1]
    told = [key for key in different if not any(key.startswith(f"{above}.") for above in different)]
    found = [(key, [_written(recipe.get(key, NONE)) for recipe in recipes]) for key in told]
    views = [run.files.view or NONE for run in runs]
    return found if len({*views} - {NONE}) < 2 else [*found, ("images seen as", views)]


def flat(nested: Document, where: str = "") -> Document:
    """A recipe as key.path → value; a list of methods is the list of their names, each with settings below it."""
    found: Document = {}
    for key, value in nested.items():
        path = f"{where}{key}"
        if isinstance(value, dict) and value:
            found |= flat(value, f"{path}.")
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            found[path] = [name_of(item) for item in value]
            for i, item in enumerate(value):
                found |= flat(item, f"{path}.{i}.") if isinstance(item, dict) else {}
        else:
            found[path] = value
    return found


def _written(value: Any) -> str:
    """As YAML has it, but numbers as people write them and of private paths the last part."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return setting(value)
    if isinstance(value, list):
        return ", ".join(_written(item) for item in value) or "[]"
    return public_path(value, "…/")
