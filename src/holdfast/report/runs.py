"""The runs of a comparison: what lies in their folders, under names that tell them apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.report.sections.flags import all_flags
from holdfast.run_folder import RunFolder, read_run_folder

Document = dict[str, Any]
PROTOCOLS: dict[str, tuple[str, ...]] = {
    "ers": ("audit.json", "audit-ers-published.json"),
    "adml": ("audit-adml-fixed.json", "audit-adml-replaced.json"),
    "stax": ("audit-stax-fixed.json", "audit-stax-replaced.json"),
    "thorough": ("audit-thorough-fixed.json",),
}
"""Where each protocol's audit lies; the first that is there counts."""
KINDS = 7
"""Colours the page has; an eighth run looks like the first and is told apart by its letter."""


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """One run or audited model.

    Args:
        name: short, and different from the others'.
        number: its place in the comparison, from 0.
        files: what lies in its folder.
    """

    name: str
    number: int
    files: RunFolder

    @property
    def letter(self) -> str:
        """Stands for it where a name is too long: A to Z, then numbers."""
        return chr(ord("A") + self.number) if self.number < 26 else str(self.number + 1)

    @property
    def kind(self) -> str:
        """CSS class of its colour."""
        return f"s{self.number % KINDS + 1}"

    @property
    def audits(self) -> dict[str, Document]:
        """The audit of each protocol that was run."""
        there = {"audit.json": self.files.audit, **self.files.audits}
        chosen = {name: next((there[f] for f in files if there.get(f)), None) for name, files in PROTOCOLS.items()}
        return {name: document for name, document in chosen.items() if document}

    @property
    def flags(self) -> list[dict[str, str]]:
        """What its audits warn of, each warning once, the serious first."""
        return all_flags(self.files)


def read_runs(folders: Sequence[str | Path]) -> list[ComparedRun]:
    """Read every folder.

    Args:
        folders: run folders, or folders an audit was written to.
    """
    paths = [Path(folder) for folder in folders]
    named = zip(short_names(paths), paths, strict=True)
    return [ComparedRun(name, i, read_run_folder(path)) for i, (name, path) in enumerate(named)]


def short_names(folders: Sequence[Path]) -> list[str]:
    """As few last parts of each path as tell it from the others; the same folder given twice is numbered."""
    parts = [folder.resolve().parts for folder in folders]
    names = []
    for own in parts:
        others = [other for other in parts if other != own]
        length = next((n for n in range(1, len(own)) if all(o[-n:] != own[-n:] for o in others)), len(own))
        names.append("/".join(own[-length:]))
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)
    ]
