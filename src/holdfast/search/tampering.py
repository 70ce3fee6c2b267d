"""Does a query look tampered with? Compared with clean queries, whose statistics an index stores."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.search.index import Index, Prints
from holdfast.search.looking import Looks

SIGNS = (
    "farther from everything in the index than clean images are",
    "much nearer to one image than to any other",
    "moved by a little noise more than clean images are",
    "moved by a shift of a pixel more than clean images are",
)
"""What each statistic says when it is too large."""

FALSE_ALARMS = 0.01


@dataclasses.dataclass(frozen=True)
class Verdict:
    """On one query.

    Args:
        tampered: whether it looks tampered with.
        why: in what it differs from clean queries, the most telling first.
    """

    tampered: bool
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"looks tampered with ({'; '.join(self.why)})" if self.tampered else ""


def statistics(index: Index, looks: Looks, prints: Prints) -> NDArray[np.float32]:
    """Four numbers on each query, each larger the odder: see `SIGNS`.

    Distance to the nearest image, by how much the second is farther, and the two moves. The very same image in the
    index is passed over: being in it is no sign of anything.
    """
    assert looks.noise is not None
    assert looks.shift is not None
    distances = index.search(looks.vectors, 2, without=prints).distances
    # With nothing else to find there is nothing to compare.
    nearest, second = np.nan_to_num(np.pad(distances, ((0, 0), (0, 2)))[:, :2], posinf=0.0).T
    return np.stack([nearest, np.maximum(second - nearest, 0), looks.noise, looks.shift], 1).astype(np.float32)


class Detector:
    """Marks queries whose statistics clean queries rarely have.

    Each statistic is measured from the median of the clean ones, in units of the way from there to their 95th
    percentile, and the largest of the four is the score. The threshold is the quantile of the clean scores that keeps
    the expected share of false alarms at or under the one asked for (split conformal).

    Args:
        clean: statistics of clean queries, one row each.
        false_alarms: share of clean queries that may be marked.
    """

    def __init__(self, clean: NDArray[np.float32], false_alarms: float = FALSE_ALARMS) -> None:
        self._middle = np.median(clean, 0)
        self._scale = np.maximum(np.quantile(clean, 0.95, 0) - self._middle, 1e-6)
        scores = np.sort(self._scores(clean).max(1))
        self.threshold = float(scores[math.ceil((len(clean) + 1) * (1 - false_alarms)) - 1])

    def _scores(self, values: NDArray[np.float32]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = (values.astype(np.float64) - self._middle) / self._scale
        return scores

    def judge(self, values: NDArray[np.float32]) -> list[Verdict]:
        """A verdict on each row of statistics."""
        return [self._verdict(row) for row in self._scores(values)]

    def _verdict(self, scores: Sequence[float] | NDArray[np.float64]) -> Verdict:
        odd = [int(i) for i in np.argsort(scores)[::-1] if scores[i] > self.threshold]
        return Verdict(bool(odd), tuple(SIGNS[i] for i in odd))


def detector_of(index: Index, false_alarms: float = FALSE_ALARMS) -> tuple[Detector | None, str]:
    """The detector of an index, or why there is none."""
    clean = index.clean
    if not len(clean):
        return None, "the index was not calibrated on clean images"
    if not 0 < false_alarms < 1 or (len(clean) + 1) * false_alarms < 1:
        return None, f"{len(clean):,} clean images cannot tell a false alarm rate of {false_alarms:g}"
    return Detector(clean, false_alarms), ""
