"""The runs of a comparison: what lies in their folders, under names that tell them apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.report.found import Found, find
from holdfast.report.sections.flags import all_flags

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
class Contestant:
    """One run or audited model.

    Args:
        name: short, and different from the others'.
        number: its place in the comparison, from 0.
        found: what lies in its folder.
    """

    name: str
    number: int
    found: Found

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
        there = {"audit.json": self.found.audit, **self.found.audits}
        chosen = {name: next((there[f] for f in files if there.get(f)), None) for name, files in PROTOCOLS.items()}
        return {name: document for name, document in chosen.items() if document}

    @property
    def flags(self) -> list[dict[str, str]]:
        """What its audits warn of, each warning once, the serious first."""
        return all_flags(self.found)


def read_contestants(folders: Sequence[str | Path]) -> list[Contestant]:
    """Read every folder.

    Args:
        folders: run folders, or folders an audit was written to.
    """
    paths = [Path(folder) for folder in folders]
    names = short_names(paths)
    return [Contestant(name, i, find(path)) for i, (path, name) in enumerate(zip(paths, names, strict=True))]


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
