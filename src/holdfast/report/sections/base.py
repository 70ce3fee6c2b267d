"""What every section is given and gives."""

from __future__ import annotations

import dataclasses
from typing import Any

from holdfast.report.formatting import eps
from holdfast.report.images import Pictures
from holdfast.report.sections.public import public_text, report_command, spec
from holdfast.run_folder import RunFolder

DAMAGED = (KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError, OverflowError)
"""What a section raises on files that are not as they should be; a stranger's folder must still give a page."""

UNSEEN = ("skip_bad",)
"""Settings of a dataset that do not choose its pictures."""


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
        files: the files of the folder.
        pictures: the pictures among them.
    """

    files: RunFolder
    pictures: Pictures

    def exhibit(self, name: str) -> Any:
        """A block of the exhibits, or why it is not there."""
        block = self.files.exhibits.get(name)
        if block:
            return block
        if not self.files.exhibits:
            raise Absent("not collected yet", report_command(self.files))
        missing = self.files.exhibits.get("missing")
        why = missing.get(name) if isinstance(missing, dict) else None
        raise Absent(public_text(why or "nothing was found to show"))

    @property
    def other_data(self) -> tuple[str, str] | None:
        """The data of the exhibits and that of the figures, where they are not the same; else None."""
        files, made = self.files, self.files.exhibits.get("made")
        if not isinstance(made, dict) or not made.get("data"):
            return None
        measured = next((d for d in (files.evaluation, files.audit) if d.get("data")), {"data": files.data})
        shown, own = (_plain(document["data"]) for document in (made, measured))
        splits = made.get("split"), measured.get("split")
        alike = all(shown[key] == own[key] for key in shown.keys() & own.keys() if key not in UNSEEN)
        if alike and (None in splits or splits[0] == splits[1]):
            return None
        return _named(shown, splits[0]), _named(own, splits[1])

    @property
    def strength(self) -> str:
        """The attack's radius in words, of the exhibits."""
        made = self.files.exhibits.get("made")
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


def _plain(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {"name": data}


def _named(data: dict[str, Any], split: Any) -> str:
    return f"{spec(data)}, {split} split" if split else spec(data)
