"""The page of one run or audit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.files import write_atomic
from holdfast.report.images import Pictures
from holdfast.report.render import render
from holdfast.report.sections.attacks import attacks
from holdfast.report.sections.base import DAMAGED, Absent, Section, Source
from holdfast.report.sections.clean import clean
from holdfast.report.sections.confusions import confusions
from holdfast.report.sections.curves import curves
from holdfast.report.sections.distances import distances
from holdfast.report.sections.drift import drift
from holdfast.report.sections.eps_curve import radius
from holdfast.report.sections.flags import flags
from holdfast.report.sections.header import header
from holdfast.report.sections.others import others
from holdfast.report.sections.projection import projection
from holdfast.report.sections.provenance import provenance
from holdfast.report.sections.public import report_command
from holdfast.report.sections.recipe import trained
from holdfast.report.sections.strips import strips
from holdfast.report.sections.triplet import triplet
from holdfast.run_folder import read_run_folder

SECTIONS: dict[str, tuple[str, Callable[[Source], Section]]] = {
    "flags": ("Reliability", flags),
    "trained": ("Training", trained),
    "curves": ("Learning curves", curves),
    "clean": ("Clean figures", clean),
    "attacks": ("Ten attacks", attacks),
    "radius": ("Attack strength", radius),
    "strips": ("Searches", strips),
    "distances": ("Distances", distances),
    "map": ("Map", projection),
    "confusions": ("Confusions", confusions),
    "triplet": ("Triplet", triplet),
    "drift": ("BatchNorm", drift),
    "others": ("Other audits", others),
    "provenance": ("Provenance", provenance),
}
"""In the order of the page; the key names the template, `section_KEY.html`."""
EXHIBITED = ("radius", "strips", "distances", "map", "confusions", "triplet")
"""Show the pictures that the exhibits were made of, which `holdfast report --data` may choose."""
OPTIONAL = ("drift", "others")
"""Their absence is normal and not worth a line."""


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
        images: show pictures.
    """
    file = Path(out) if out is not None else Path(folder) / "report.html"
    write_atomic(file, make(Path(folder), images).html)
    return file


def make(folder: Path, images: bool = True) -> Page:
    """The page of a run or audit folder.

    Args:
        folder: of a run or an audit.
        images: show pictures.
    """
    files = read_run_folder(folder)
    pictures = Pictures(folder / "artifacts", images)
    source = Source(files, pictures)
    sections: list[dict[str, Any]] = []
    missing: list[dict[str, str]] = []
    for key, (name, build) in SECTIONS.items():
        try:
            section = build(source)
            sections.append({"key": key, "name": name, "title": section.title, **section.content})
        except Absent as absent:
            if key not in OPTIONAL:
                missing.append({"name": name, "why": absent.why, "command": absent.command})
        except DAMAGED:
            refresh = report_command(files, "--refresh")
            missing.append({"name": name, "why": "what is stored cannot be read", "command": refresh})
    html = render(
        "report.html",
        scripts=("page.js",),
        title=f"{files.name} · holdfast",
        head=header(source),
        sections=sections,
        exhibited=EXHIBITED,
        missing=_joined(missing),
        images=images,
        left_out=pictures.left_out,
    )
    return Page(html, {entry["name"]: entry["why"] for entry in missing})


def _joined(missing: list[dict[str, str]]) -> list[dict[str, str]]:
    """One entry for all sections that are missing for the same reason."""
    names: dict[tuple[str, str], list[str]] = {}
    for entry in missing:
        names.setdefault((entry["why"], entry["command"]), []).append(entry["name"])
    return [{"name": ", ".join(those), "why": why, "command": command} for (why, command), those in names.items()]
