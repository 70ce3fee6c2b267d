"""Ask an index: the nearest images of each query, and whether the query looks tampered with."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from holdfast.console import Console
from holdfast.data import ImageStore
from holdfast.models import Embedder
from holdfast.search.index import Index
from holdfast.search.looking import look, print_images
from holdfast.search.tampering import FALSE_ALARMS, Verdict, detector_of, statistics


@dataclasses.dataclass(frozen=True)
class Match:
    """An image that was found."""

    id: str
    label: str
    distance: float


@dataclasses.dataclass(frozen=True)
class Answer:
    """What was found for one query.

    Args:
        query: its name.
        matches: nearest first.
        verdict: whether it looks tampered with; None where the index cannot tell.
    """

    query: str
    matches: tuple[Match, ...]
    verdict: Verdict | None

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "query": self.query,
            "tampered": None if self.verdict is None else self.verdict.tampered,
            "why": [] if self.verdict is None else list(self.verdict.why),
            "matches": [dataclasses.asdict(match) for match in self.matches],
        }


@dataclasses.dataclass(frozen=True)
class Answers:
    """What was found for all queries.

    Args:
        answers: one per query.
        unchecked: why no query was checked for tampering, empty if all were.
    """

    answers: list[Answer]
    unchecked: str


def ask(
    index: Index,
    model: Embedder,
    queries: ImageStore,
    k: int = 10,
    false_alarms: float = FALSE_ALARMS,
    batch: int = 256,
    console: Console | None = None,
) -> Answers:
    """Search an index for images.

    Args:
        index: what to search.
        model: the one that made it, in eval mode.
        queries: the images, at the model's view and on its device.
        k: matches of each.
        false_alarms: share of clean queries that may be marked as tampered with.
        batch: images per pass.
        console: shows progress if given.
    """
    detector, unchecked = detector_of(index, false_alarms)
    looks = look(
        model, queries, np.arange(len(queries)), batch, index.seed, moved=detector is not None, console=console
    )
    found = index.search(looks.vectors, k)
    verdicts: list[Verdict] | list[None] = [None] * len(queries)
    if detector is not None:
        verdicts = detector.judge(statistics(index, looks, print_images(queries, batch)))
    answers = []
    for query, rows, distances, verdict in zip(
        queries.table.ids, found.rows.tolist(), found.distances.tolist(), verdicts, strict=True
    ):
        pairs = zip(rows, distances, strict=True)
        matches = tuple(Match(index.ids[row], index.labels[row], apart) for row, apart in pairs if row >= 0)
        answers.append(Answer(query, matches, verdict))
    return Answers(answers, unchecked)
