"""What lies in a run or audit folder."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import yaml

from holdfast.errors import HoldfastError

EXHIBITS_SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class Found:
    """The files of one folder, as plain data; what is not there is empty.

    Args:
        folder: where.
        recipe: how it was trained.
        recipe_text: the same as YAML.
        log: lines of metrics.jsonl.
        evaluation: clean figures.
        audit: the ten attacks, mode fixed.
        audits: every other audit, by file name.
        exhibits: strips, map and the like.
        damaged: names of files that could not be read.
    """

    folder: Path
    recipe: dict[str, Any]
    recipe_text: str
    log: list[dict[str, Any]]
    evaluation: dict[str, Any]
    audit: dict[str, Any]
    audits: dict[str, dict[str, Any]]
    exhibits: dict[str, Any]
    damaged: list[str]

    @property
    def name(self) -> str:
        """Of the run: its folder's."""
        return self.folder.resolve().name

    @property
    def shown_folder(self) -> str:
        """The folder as a command on the page names it: relative where it can be, never a private path."""
        try:
            return str(self.folder.resolve().relative_to(Path.cwd()))
        except ValueError:
            return self.name

    @property
    def data(self) -> dict[str, Any]:
        """What was trained on, or audited with."""
        for block in (self.recipe.get("data"), self.evaluation.get("data"), self.audit.get("data")):
            if isinstance(block, dict):
                return block
            if isinstance(block, str):
                return {"name": block}
        return {}

    @property
    def data_spec(self) -> str:
        """The data as `--data` takes it, `DATA` where that is not known."""
        place = self.data.get("root") or self.data.get("file")
        name = self.data.get("name", "DATA")
        return f"{name}:{place}" if place else str(name)


def find(folder: Path) -> Found:
    """Read a run or audit folder."""
    damaged: list[str] = []
    audits = {file.name: _document(file, damaged) for file in sorted(folder.glob("audit*.json"))}
    audits |= {
        f"{file.parent.name}/{file.name}": _document(file, damaged)
        for file in sorted(folder.glob("audits/*/audit*.json"))
    }
    text, recipe = _recipe(folder / "recipe.yaml", damaged)
    exhibits = _document(folder / "artifacts" / "exhibits.json", damaged)
    if exhibits and exhibits.get("schema") != EXHIBITS_SCHEMA:
        damaged.append("exhibits.json")
        exhibits = {}
    found = Found(
        folder=folder,
        recipe=recipe,
        recipe_text=text,
        log=_lines(folder / "metrics.jsonl"),
        evaluation=_document(folder / "evaluation.json", damaged),
        audit=audits.pop("audit.json", {}),
        audits={name: document for name, document in audits.items() if document},
        exhibits=exhibits,
        damaged=damaged,
    )
    if not (found.recipe or found.evaluation or found.audit or found.audits):
        raise HoldfastError(
            f"{folder} is neither a run nor an audit (no readable recipe.yaml, evaluation.json or audit.json); "
            "give a folder that `holdfast train` or `holdfast audit` wrote"
        )
    return found


def _document(file: Path, damaged: list[str]) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text("utf-8"))
    except (ValueError, OSError, RecursionError):
        content = None
    if isinstance(content, dict):
        return content
    damaged.append(file.name)
    return {}


def _recipe(file: Path, damaged: list[str]) -> tuple[str, dict[str, Any]]:
    if not file.is_file():
        return "", {}
    try:
        text = file.read_text("utf-8")
        content = yaml.safe_load(text)
    except (yaml.YAMLError, OSError, UnicodeDecodeError, RecursionError):
        text, content = "", None
    if isinstance(content, dict):
        return text, content
    damaged.append(file.name)
    return "", {}


def _lines(file: Path) -> list[dict[str, Any]]:
    """Whole lines of a log; one cut off by a crash is left out."""
    if not file.is_file():
        return []
    entries = []
    for line in file.read_text("utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries
