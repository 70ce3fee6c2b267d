"""The same query asked of every model, where their exhibits show the same pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.report.images import BUDGET, Pictures
from holdfast.report.runs import ComparedRun, Document
from holdfast.report.sections.recipe import block

MOST = 4
"""Queries shown; more repeat the lesson."""


def shared_queries(runs: Sequence[ComparedRun]) -> list[Document]:
    """Queries that the exhibits of two or more runs have in common, with the matches each model finds.

    A query is the same when its picture is, byte by byte.
    """
    pictures = {run.number: Pictures(run.files.folder / "artifacts") for run in runs}
    asked: dict[str, dict[int, Document]] = {}
    for run in runs:
        strips = run.files.exhibits.get("strips")
        for strip in strips if isinstance(strips, list) else ():
            source = pictures[run.number].source(block(strip, "query").get("file"))
            if source is not None:
                asked.setdefault(source, {})[run.number] = strip
    most = max((len(strips) for strips in asked.values()), default=0)
    shown: list[Document] = []
    size = 0
    for strips in asked.values():
        if most < 2 or len(strips) < most or len(shown) == MOST:
            continue
        first = next(iter(strips))
        query = {
            "picture": pictures[first].tag(strips[first].get("query")),
            "label": str(strips[first].get("label", "")),
            "answers": [_answer(runs[i], strip, pictures[i]) for i, strip in strips.items()],
        }
        size += len(str(query))
        if size > BUDGET:
            break
        shown.append(query)
    return shown


def _answer(run: ComparedRun, strip: Document, pictures: Pictures) -> Document:
    attacked = block(strip, "attacked")
    return {
        "run": run,
        "before": _matches(strip.get("matches"), pictures),
        "after": _matches(attacked.get("matches"), pictures),
        "attacked": pictures.tag(attacked.get("picture")),
    }


def _matches(matches: Any, pictures: Pictures) -> list[Document]:
    found = [match for match in matches if isinstance(match, dict)] if isinstance(matches, list) else []
    return [
        {
            "picture": pictures.tag(match.get("picture")),
            "label": str(match.get("label", "")),
            "right": match.get("right") is True,
        }
        for match in found
    ]
