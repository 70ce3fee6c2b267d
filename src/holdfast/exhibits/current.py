"""Whether the exhibits of a folder are still those of its model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.exhibits.collect import FILE, SCHEMA
from holdfast.exhibits.origin import audit_files, own_data
from holdfast.run_files import parse_json


def is_current(folder: Path, *, images: bool = True) -> bool:
    """Whether `artifacts/exhibits.json` is there, of this schema, whole, and not older than what it was made from.

    Exhibits of other images than the folder's own are never current: they were asked for once, with `data`.

    Args:
        folder: a run, or the folder of an audit.
        images: ask for pictures, too; without, it does not matter whether there are any.
    """
    file = folder / "artifacts" / FILE
    try:
        made = file.stat().st_mtime
        document = parse_json(file.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return False
    if any(source.stat().st_mtime > made for source in _sources(folder)):
        return False
    settings = document.pop("made", None)  # the block of a dataset may name a file, too, which is no picture
    if not isinstance(settings, dict) or not _is_own(folder, settings.get("data")):
        return False
    if not images:
        return True
    return settings.get("images") is True and all((file.parent / name).is_file() for name in _files(document))


def _is_own(folder: Path, data: Any) -> bool:
    """Whether images are those that the folder names; where it names none, no others could be shown instead."""
    try:
        own = own_data(folder)
    except HoldfastError:
        return False
    return own is None or data == own


def _sources(folder: Path) -> list[Path]:
    """What the exhibits depend on, as far as it lies in the folder."""
    own = [folder / "recipe.yaml", folder / "evaluation.json", *(folder / "model").glob("*")]
    return [file for file in (*own, *audit_files(folder)) if file.is_file()]


def _files(value: Any) -> Iterator[str]:
    """Every picture file that is named anywhere in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("file"), str):
            yield value["file"]
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _files(part)
