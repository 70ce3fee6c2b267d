"""Ask an index: the nearest images of each query, and whether the query looks tampered with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data import ImageStore
from holdfast.errors import SearchError
from holdfast.models import Embedder
from holdfast.search.embedding import embed_images, measure_moves
from holdfast.search.flat import Vectors
from holdfast.search.index import COPIES, Filter, Fingerprints, Index, IndexedImages, SearchResult
from holdfast.search.verification import threshold_at

SIGNS = (
    "farther from everything in the index than clean images are",
    "much nearer to one image than to any other",
    "moved by a little noise more than clean images are",
    "moved by a shift of a pixel more than clean images are",
)
"""What each statistic says when it is too large."""

FALSE_ALARMS = 0.01

COMPARED = 2
"""Images of the index, the nearest, whose distances tell."""

SEARCHED = COMPARED + COPIES
"""Neighbours among which they are, copies of the query aside."""


@dataclasses.dataclass(frozen=True)
class TamperVerdict:
    """On one query.

    Args:
        tampered: whether it looks tampered with.
        why: in what it differs from clean queries, the most telling first.
    """

    tampered: bool
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"looks tampered with ({'; '.join(self.why)})" if self.tampered else ""


def statistics(
    index: Index, vectors: Vectors, moves: Vectors, fingerprints: Fingerprints, found: SearchResult | None = None
) -> Vectors:
    """Four numbers on each query, each larger the odder: see `SIGNS`.

    Distance to the nearest image, by how much the second is farther, and the two moves. The very same image in the
    index is skipped: being in it is no sign of anything.

    Args:
        index: what is searched.
        vectors: of the queries.
        moves: how far small changes move each, as `search.embedding.measure_moves` says.
        fingerprints: of the queries.
        found: what the index has nearest to them, `SEARCHED` or more each; searched for when left out.
    """
    found = found or index.search(vectors, SEARCHED)
    distances = found.without(fingerprints, COMPARED).distances
    # With nothing else to find there is nothing to compare.
    nearest, second = np.nan_to_num(np.pad(distances, ((0, 0), (0, COMPARED)))[:, :COMPARED], posinf=0.0).T
    return np.column_stack([nearest, np.maximum(second - nearest, 0), moves]).astype(np.float32)


class Detector:
    """Marks queries whose statistics clean queries rarely have.

    Each statistic is measured from the median of the clean ones, in units of the way from there to their 95th
    percentile, and the largest of the four is the score. The threshold is the quantile of the clean scores that keeps
    the expected rate of false alarms at or under the one asked for (split conformal).

    Args:
        clean: statistics of clean queries, one row each.
        false_alarms: fraction of clean queries that may be marked.
    """

    def __init__(self, clean: NDArray[np.float32], false_alarms: float = FALSE_ALARMS) -> None:
        self._middle = np.median(clean, 0)
        self._scale = np.maximum(np.quantile(clean, 0.95, 0) - self._middle, 1e-6)
        scores = np.sort(self._scores(clean).max(1))
        self.threshold = float(scores[math.ceil((len(clean) + 1) * (1 - false_alarms)) - 1])

    def _scores(self, values: NDArray[np.float32]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = (values.astype(np.float64) - self._middle) / self._scale
        return scores

    def judge(self, values: NDArray[np.float32]) -> list[TamperVerdict]:
        """A verdict on each row of statistics."""
        verdicts = []
        for scores in self._scores(values):
            odd = [int(i) for i in np.argsort(scores)[::-1] if scores[i] > self.threshold]
            verdicts.append(TamperVerdict(bool(odd), tuple(SIGNS[i] for i in odd)))
        return verdicts


def detector_of(index: Index, false_alarms: float = FALSE_ALARMS) -> tuple[Detector | None, str]:
    """The detector of an index, or why there is none."""
    clean = index.clean
    if not len(clean):
        return None, "the index was not calibrated on clean images"
    if not 0 < false_alarms < 1 or (len(clean) + 1) * false_alarms < 1:
        few = f"{len(clean):,} clean images are too few for a false alarm rate of {false_alarms:g}"
        more = "calibrate with more of them" if len(clean) < len(index) else "add images to the index"
        return None, f"{few}; {more}, or allow {math.ceil(1000 / (len(clean) + 1)) / 1000:g}"
    return Detector(clean, false_alarms), ""


@dataclasses.dataclass(frozen=True)
class Hit:
    """An image that was found.

    Args:
        id: its name.
        label: its class, empty where unknown.
        distance: from the query.
        same: whether both show the same, by the threshold of the index; None where that has none.
    """

    id: str
    label: str
    distance: float
    same: bool | None = None


@dataclasses.dataclass(frozen=True)
class Answer:
    """What was found for one query.

    Args:
        query: its name.
        matches: nearest first.
        verdict: whether it looks tampered with; None where the index cannot tell.
    """

    query: str
    matches: tuple[Hit, ...]
    verdict: TamperVerdict | None

    def document(self) -> dict[str, Any]:
        """As plain data."""
        checked = {"tampered": None, "why": ()} if self.verdict is None else dataclasses.asdict(self.verdict)
        return {"query": self.query, **checked, "matches": [dataclasses.asdict(match) for match in self.matches]}


@dataclasses.dataclass(frozen=True)
class Answers:
    """What was found for all queries.

    Args:
        answers: one per query.
        unchecked: why no query was checked for tampering, empty if all were.
    """

    answers: list[Answer]
    unchecked: str


class Searcher:
    """Answers queries from an index; what they share is made ready once.

    Args:
        index: what to search.
        false_alarms: fraction of clean queries that may be marked as tampered with.
        far: rate of false acceptance at which a match is called the same; the index's first when left out.
    """

    def __init__(self, index: Index, false_alarms: float = FALSE_ALARMS, far: float | None = None) -> None:
        if index.unfinished is not None:
            raise SearchError("the index is not whole yet; go on with `holdfast index FOLDER --add DATA`")
        self.index = index
        self.detector, self.unchecked = detector_of(index, false_alarms)
        self.threshold = threshold_at(index.model.thresholds, far)

    def answers(
        self,
        names: Sequence[str],
        vectors: Vectors,
        moves: Vectors | None,
        fingerprints: Fingerprints,
        k: int,
        where: Filter | None = None,
    ) -> list[Answer]:
        """What was found for each query.

        Args:
            names: of the queries.
            vectors: of the queries, by the model that made the index.
            moves: how far small changes move each, as `search.embedding.measure_moves` says; None marks no query.
            fingerprints: of the queries.
            k: matches of each.
            where: which images may match; whether a query looks tampered with is told by all of the index.
        """
        found = self.index.search(vectors, k if moves is None or where else max(k, SEARCHED), where=where)
        verdicts: Sequence[TamperVerdict | None] = [None] * len(names)
        if self.detector is not None and moves is not None:
            among_all = None if where else found
            verdicts = self.detector.judge(statistics(self.index, vectors, moves, fingerprints, among_all))
        matches = [
            tuple(self._hit(found.images, row, apart) for row, apart in zip(*both, strict=True) if row >= 0)
            for both in zip(found.rows[:, :k].tolist(), found.distances[:, :k].tolist(), strict=True)
        ]
        return [Answer(*parts) for parts in zip(names, matches, verdicts, strict=True)]

    def _hit(self, images: IndexedImages, row: int, distance: float) -> Hit:
        same = None if self.threshold is None else distance < self.threshold
        return Hit(images.ids[row], images.labels[row], distance, same)


def ask(
    searcher: Searcher,
    model: Embedder,
    queries: ImageStore,
    k: int = 10,
    batch: int = 256,
    where: Filter | None = None,
) -> Answers:
    """Search an index for images.

    Args:
        searcher: of the index.
        model: the one that made it, in eval mode.
        queries: the images, at the model's view and on its device.
        k: matches of each.
        batch: images per pass.
        where: which images may match.
    """
    index, rows, moves = searcher.index, np.arange(len(queries)), None
    vectors, fingerprints = embed_images(model, queries, rows, batch)
    if searcher.detector is not None:
        moves = measure_moves(model, queries, rows, vectors, batch, index.seed, index.copies)
    return Answers(searcher.answers(queries.table.ids, vectors, moves, fingerprints, k, where), searcher.unchecked)
