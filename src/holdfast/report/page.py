"""The page of one run or audit, made from files alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from jinja2 import UndefinedError
from markupsafe import Markup

from holdfast.files import write_atomic
from holdfast.report.context import Absent, PageContext, Section
from holdfast.report.images import PageImages
from holdfast.report.public import report_command
from holdfast.report.render import SCRIPTS, part, render
from holdfast.report.sections import SECTIONS
from holdfast.report.sections.header import header
from holdfast.run_folder import DAMAGED, read_run


@dataclasses.dataclass(frozen=True)
class Page:
    """A page, before it is written.

    Args:
        html: the whole file.
        missing: short name → why a section is not there.
    """

    html: str
    missing: dict[str, str]


def write(folder: str | Path, out: str | Path | None = None, images: bool = True) -> Path:
    """Write the page of a run or audit folder.

    Args:
        folder: what `holdfast train` or `holdfast audit` wrote.
        out: the file; `report.html` in the folder when left out.
        images: show images.
    """
    file = Path(out) if out is not None else Path(folder) / "report.html"
    write_atomic(file, make(Path(folder), images).html)
    return file


def make(folder: Path, images: bool = True) -> Page:
    """The page of a run or audit folder.

    Args:
        folder: of a run or an audit.
        images: show images.
    """
    context = PageContext(read_run(folder), PageImages(folder / "artifacts", images))
    sections: list[tuple[Section, str, Markup]] = []
    missing: list[tuple[str, str, str]] = []
    for section in SECTIONS:
        try:
            shown = section.show(context)
            sections.append((section, shown["title"], part(f"section_{section.key}.html", section=shown)))
        except Absent as absent:
            if not section.optional:
                missing.append((section.name, absent.why, absent.command))
        except (UndefinedError, *DAMAGED):
            refresh = report_command(context.files, "--refresh")
            missing.append((section.name, "what is stored cannot be read", refresh))
    page = render(
        "report.html",
        scripts=SCRIPTS,
        title=f"{context.files.name} · holdfast",
        head=header(context),
        sections=sections,
        missing=_joined(missing),
        images=images,
        left_out=context.images.left_out,
    )
    return Page(page, {name: why for name, why, _ in missing})


def _joined(missing: list[tuple[str, str, str]]) -> list[dict[str, str]]:
    """One entry for all sections that are missing for the same reason."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, *reason in missing:
        names.setdefault((reason[0], reason[1]), []).append(name)
    return [{"name": ", ".join(those), "why": why, "command": command} for (why, command), those in names.items()]
