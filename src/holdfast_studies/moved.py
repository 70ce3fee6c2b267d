"""Runs whose dataset, weights or start lie elsewhere than when they began: the same run, not one of another recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.files import write_atomic
from holdfast.training.folder import TrainingFolder, differences
from holdfast.training.recipe import load_recipe
from holdfast.yaml_files import read_yaml


def relocate(folder: Path, plain: dict[str, Any]) -> None:
    """Write the paths of today into the recipe of a run that differs in nothing else, so that it goes on.

    A file of weights may lie elsewhere but must be called the same; another name may mean another model.

    Args:
        folder: of the run; nothing is done where none was begun.
        plain: the recipe with everything as it lies here.
    """
    file = TrainingFolder(folder).recipe_file
    try:
        there = read_yaml(file.read_text("utf-8"))
    except (OSError, ValueError):
        return  # training says what is wrong with it
    if not isinstance(there, dict):
        return
    now = load_recipe(plain)
    different = differences(there, now.plain())
    if different and all(_moved(key, there, now.plain()) for key in different):
        write_atomic(file, now.yaml())


def _moved(key: str, there: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a setting that differs is a path that leads to the same thing."""
    if key == "data.root":
        return True
    old, new = (_at(plain, key) for plain in (there, now))
    return key in ("model.weights", "init") and bool(old and new) and Path(str(old)).name == Path(str(new)).name


def _at(plain: Any, key: str) -> Any:
    for part in key.split("."):
        plain = plain.get(part) if isinstance(plain, dict) else None
    return plain
