"""The card of a run, written again from what lies in its folder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from holdfast.errors import ModelError, reason
from holdfast.files import inside, write_atomic
from holdfast.models.card import card_text, untouched
from holdfast.run_files import log_lines
from holdfast.yaml_files import read_yaml

CARD = "README.md"


def write_card(run: str | Path, *, license: str | None = None, title: str | None = None, force: bool = False) -> Path:
    """Write the model card of a run from its recipe.yaml, evaluation.json, audits and metrics.jsonl.

    Licence and title stay as the card has them unless given here. A card that was edited by hand is left alone.

    Args:
        run: the run folder; the card goes into its `model/`.
        license: Hub identifier of the model's licence, such as `apache-2.0`.
        title: heading of the card.
        force: write over a card that was edited by hand.
    """
    folder = Path(run)
    package = folder / "model"
    if not (folder / "recipe.yaml").is_file() or not package.is_dir():
        raise ModelError(f"{folder} is no run with a packaged model; train one with `holdfast train`")
    if license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]{0,63}", license):
        raise ModelError(f"'{license}' is no licence identifier; use one of the Hub's, such as apache-2.0 or mit")
    file = inside(folder, package) / CARD
    before = _text(file)
    if before is not None and not force and not untouched(before):
        raise ModelError(f"{file} was edited by hand and stays as it is; `holdfast card {folder} --force` replaces it")
    kept = _kept(before)
    try:
        text = card_text(
            read_yaml(inside(folder, folder / "recipe.yaml").read_text("utf-8")),
            _document(inside(folder, folder / "evaluation.json")),
            [audit for file in _audits(folder) if (audit := _document(inside(folder, file)))],
            log_lines(_text(inside(folder, folder / "metrics.jsonl"))),
            license=license or kept.get("license"),
            title=title or kept.get("title"),
        )
    except (OSError, ValueError, ArithmeticError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"the files of {folder} are damaged, so no card can be written ({reason(error)})") from error
    write_atomic(file, text)
    return file


def _audits(folder: Path) -> list[Path]:
    """The newest audit of each protocol and mode; `audit.1.json` and so on are of something else."""
    return [
        folder / "audit.json",
        *sorted(file for file in folder.glob("audit-*.json") if not re.search(r"\.\d+\.json$", file.name)),
    ]


def _document(file: Path) -> dict[str, Any] | None:
    text = _text(file)
    found = json.loads(text) if text is not None else None
    return found if isinstance(found, dict) else None


def _text(file: Path) -> str | None:
    return file.read_text("utf-8", errors="replace") if file.is_file() else None


def _kept(card: str | None) -> dict[str, str]:
    """Licence and title of a card that is there."""
    found = re.fullmatch(r"---\r?\n(.*?)\r?\n---\r?\n(.*)", card or "", re.DOTALL)
    if not found:
        return {}
    heading = re.search(r"^# (.+)$", found[2], re.MULTILINE)
    licence = re.search(r"^license: ['\"]?([a-z0-9.+-]+)['\"]?$", found[1], re.MULTILINE)
    return {key: match[1] for key, match in (("title", heading), ("license", licence)) if match}
