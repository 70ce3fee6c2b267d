"""What sections of a page are given and give, and how one says what it is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.report.formatting import eps
from holdfast.report.images import PageImages
from holdfast.report.public import public_text, report_command, spec
from holdfast.run_files import block
from holdfast.run_folder import RunFiles

if TYPE_CHECKING:
    from holdfast.report.model import CollectContext

UNSEEN = ("skip_bad",)
"""Settings of a dataset that do not choose its images."""


class Absent(Exception):
    """There is nothing to collect or to show; the message says why, and a page prints it in place of the section.

    Args:
        why: one sentence.
        command: what adds it, if anything does.
    """

    def __init__(self, why: str, command: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.command = command


@dataclasses.dataclass(frozen=True)
class PageContext:
    """Where a section looks when a page is made: files alone.

    Args:
        files: of the run.
        images: those among them that the page shows.
    """

    files: RunFiles
    images: PageImages

    def exhibit(self, name: str) -> Any:
        """What was collected under a name, or why it is not there."""
        exhibits = self.files.exhibits
        if exhibits.get(name):
            return exhibits[name]
        if not exhibits:
            raise Absent("not collected yet", report_command(self.files))
        raise Absent(public_text(block(exhibits, "missing").get(name) or "nothing was found to show"))

    @property
    def other_data(self) -> tuple[str, str] | None:
        """The data of the exhibits and that of the figures, where they are not the same; else None."""
        files, made = self.files, block(self.files.exhibits, "made")
        if not made.get("data"):
            return None
        measured = next((d for d in (files.evaluation, files.audit) if d.get("data")), {"data": files.data})
        shown, own = (d if isinstance(d, dict) else {"name": d} for d in (made["data"], measured["data"]))
        splits = made.get("split"), measured.get("split")
        alike = all(shown[key] == own[key] for key in shown.keys() & own.keys() if key not in UNSEEN)
        if alike and (None in splits or splits[0] == splits[1]):
            return None
        names = [f"{spec(d)}, {s} split" if s else spec(d) for d, s in zip((shown, own), splits, strict=True)]
        return names[0], names[1]

    @property
    def strength(self) -> str:
        """The eps of the attack that the exhibits show, in words."""
        return eps(block(block(self.files.exhibits, "made"), "attack").get("eps_pixel"))


@dataclasses.dataclass(frozen=True)
class Section:
    """One section of a run's page, as its file declares it.

    Args:
        key: of its template (`section_KEY.html`) and its place in the page.
        name: in the contents.
        show: from files to what the template shows; its `title` is the finding.
        collect: what it needs of the model: key of `exhibits.json` → from the model to plain data. Only these may
            import torch, inside.
        of_images: made of the images that `holdfast report --data` may choose.
        optional: its absence is normal and not worth a line.
    """

    key: str
    name: str
    show: Callable[[PageContext], dict[str, Any]]
    collect: Mapping[str, Callable[[CollectContext], Any]] = dataclasses.field(default_factory=dict)
    of_images: bool = False
    optional: bool = False
