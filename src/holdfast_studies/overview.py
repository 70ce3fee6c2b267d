"""The table that each paper is cited for, printed beside measured: all results on one page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import plural
from holdfast.files import write_atomic
from holdfast_studies import base, drawing
from holdfast_studies.cited import CitedTable, cited, draw
from holdfast_studies.claims import Verdict
from holdfast_studies.judging import counted, shares
from holdfast_studies.page import PAPERS, Finished, all_verdicts, template
from holdfast_studies.results import Results
from holdfast_studies.tables import duration, spent

FIGURES = "figures/paper"


def write_overview(results: Path, found: Sequence[Finished]) -> None:
    """Write `README.md` into a folder of results.

    Args:
        results: the folder; pages, figures and readings lie there.
        found: studies at paper scale of which something was run, their figures drawn.
    """
    judged = all_verdicts("paper", found)
    every = [cell for one in found for cell in one.ran]
    gpu = [(job, outcome) for job, outcome in every if outcome.device != "CPU"]
    text = template("overview.md").render(
        counted=counted([verdict for own in judged.values() for verdict in own]),
        cells=plural(spent(every, every).cells, "cell"),
        time=duration(spent(gpu, every).seconds),
        reading=_reading(results, "overview"),
        papers=list(_papers(found, judged, results)),
    )
    write_atomic(results / "README.md", re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


def _papers(
    found: Sequence[Finished], judged: Mapping[str, Sequence[Verdict]], results: Path
) -> Iterator[dict[str, Any]]:
    """What the page says of each paper."""
    ran = {one.study.id: one.results for one in found}
    for letter, own in cited().items():
        yield {
            "heading": PAPERS[letter],
            "caption": own.caption,
            "table": own.table(ran) if own.ran(ran) else None,
            "shares": shares([verdict for name in judged if name[0] == letter for verdict in judged[name]]),
            "figures": list(_figures(letter, own, ran, results)),
            "reading": _reading(results, f"overview-{letter}"),
            "studies": [one.study.id for one in found if one.letter == letter],
        }


def _figures(letter: str, own: CitedTable, ran: Mapping[str, Results], results: Path) -> Iterator[tuple[str, str]]:
    """Title and link of a paper's figures: its table, drawn here, and that of the study which it names."""
    file = results / FIGURES / f"overview-{letter}.png"
    figure = draw(own.panels(ran))
    if figure is None:
        file.unlink(missing_ok=True)
    else:
        drawing.write(figure, file)
        yield f"{PAPERS[letter]}, printed and measured", f"{FIGURES}/{file.name}"
    if own.drawn and (results / FIGURES / f"{own.drawn}-1.png").is_file():
        yield base.get(own.drawn).figures("paper")[0].title, f"{FIGURES}/{own.drawn}-1.png"


def _reading(results: Path, name: str) -> str:
    """What is said by hand; nothing where nothing is."""
    file = results / "reading" / f"{name}.md"
    return file.read_text("utf-8").strip() if file.is_file() else ""
