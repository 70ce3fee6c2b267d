"""What every section is given and gives."""

from __future__ import annotations

import dataclasses
from typing import Any

from holdfast.report.figures import eps
from holdfast.report.found import Found
from holdfast.report.pictures import Pictures

DAMAGED = (KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError, OverflowError)
"""What a section raises on files that are not as they should be; a stranger's folder must still give a page."""


class Absent(Exception):
    """A section has nothing to show; the message says why.

    Args:
        why: one sentence.
        command: what adds it, if anything does.
    """

    def __init__(self, why: str, command: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.command = command


@dataclasses.dataclass(frozen=True)
class Source:
    """Where sections look.

    Args:
        found: the files of the folder.
        pictures: the pictures among them.
    """

    found: Found
    pictures: Pictures

    def exhibit(self, name: str) -> Any:
        """A block of the exhibits, or why it is not there."""
        block = self.found.exhibits.get(name)
        if block:
            return block
        refresh = f"holdfast report {self.found.shown_folder}"
        if not self.found.exhibits:
            raise Absent("not collected yet", refresh)
        missing = self.found.exhibits.get("missing")
        why = missing.get(name) if isinstance(missing, dict) else None
        raise Absent(str(why or "nothing was found to show"))

    @property
    def strength(self) -> str:
        """The attack's radius in words, of the exhibits."""
        made = self.found.exhibits.get("made")
        attack = made.get("attack") if isinstance(made, dict) else None
        return eps(attack.get("eps_pixel") if isinstance(attack, dict) else None)


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the page.

    Args:
        title: the finding.
        content: what its template shows.
    """

    title: str
    content: dict[str, Any]
