"""The ten ranking attacks and the Empirical Robustness Score; its terms need no torch, so that pages can use them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from holdfast.audit.base import CLEAN, PUBLISHED_BATCH, Part, Protocol, register
from holdfast.errors import DataError
from holdfast.metric_info import MetricInfo

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.attacks import Attacked, Budget
    from holdfast.audit.figures import Figures
    from holdfast.audit.subject import SharedPasses, Subject

V = TypeVar("V")


@dataclasses.dataclass(frozen=True)
class Score:
    """One of the ten.

    Args:
        goal: the attack.
        measure: what is measured of it.
        term: what the score adds to ERS, of numbers or tensors: 0 where the attacker always wins, about 100 where an
            attack changes nothing; not clipped. All are linear: ERS of a set is the mean over its images.
        meaning: in one line.
        better: which direction is good.
        scale: from what is measured to the score.
        digits: after the point.
    """

    goal: str
    measure: str
    term: Callable[[Any], Any]
    meaning: str
    better: Literal["higher", "lower"] = "higher"
    scale: float = 1.0
    digits: int = 1


SCORES: dict[str, Score] = {
    "CA+": Score(
        "ca+", "rank", lambda v: 2 * v, "rank of an image pushed up another's list, in percent: 50 is chance, 0 the top"
    ),
    "CA-": Score(
        "ca-", "rank", lambda v: 100 - v, "rank of an image pushed down a near list, in percent: 0 is unmoved", "lower"
    ),
    "QA+": Score("qa+", "rank", lambda v: 2 * v, "rank of a chosen image in a changed query's list: 50 is chance"),
    "QA-": Score(
        "qa-", "rank", lambda v: 100 - v, "rank of a near image pushed out by a changed query: 0 is unmoved", "lower"
    ),
    "TMA": Score(
        "tma", "cosine", lambda v: 100 * (1 - v), "cosine of a changed query and a chosen image", "lower", digits=3
    ),
    "ES:D": Score("es", "shift", lambda v: 50 * (2 - v), "how far a changed query moves, 0 to 2", "lower", digits=3),
    "ES:R": Score("es", "hit", lambda v: v, "R@1 of queries moved as far as possible, %", scale=100),
    "LTM": Score("ltm", "hit", lambda v: v, "R@1 when other classes are pulled near, %", scale=100),
    "GTM": Score("gtm", "hit", lambda v: v, "R@1 when the nearest wrong image is pulled near, %", scale=100),
    "GTT": Score("gtt", "top4", lambda v: v, "queries that keep their best match in the top four, %", scale=100),
}
TERMS = {key: score.term for key, score in SCORES.items()}
"""What each score adds to ERS."""
GOALS = tuple(dict.fromkeys(score.goal for score in SCORES.values()))
UPWARDS = {"ca+": True, "ca-": False}
"""Attacks on a gallery image, and whether it is to rise in another's list or to fall; the others change the query."""
SMALL_IMAGES = 28
STEPS = 32


@register("ers")
class Ers(Protocol):
    """Ten ranking attacks on every image and their score, ERS.

    32 steps of 3/255 with eps 8/255 (77/255 on 28-pixel images), from the image itself, last iterate. The gallery
    is the whole clean split. `published` repeats the deviations of the published scores: GTM's misread index, LTM's own
    copy, ES:D one step early, and means of batch means.

    Args:
        mode: `fixed` or `published`.
        eps: in pixel units; the step keeps its proportion.

    Requirements: labels, two or more images per class.
    Relations: `thorough` looks for the worst case of each query; ERS averages over aims.
    Reference: HM, Section 4.
    """

    modes: ClassVar[tuple[str, ...]] = ("fixed", "published")

    def describe(self) -> dict[str, MetricInfo]:
        """ERS and the ten."""
        ten = {key: MetricInfo(s.meaning, better=s.better, digits=s.digits) for key, s in SCORES.items()}
        mean = MetricInfo("mean of the ten attacks, 0 is defenceless; read beside R@1", digits=1, shown="headline")
        return {"R@1": CLEAN, "ERS": mean, **ten}

    def budget(self, subject: Subject) -> Budget:
        """8/255, or 77/255 for 28 pixels, or as asked."""
        from holdfast.attacks import Budget

        usual = usual_eps(subject.size)
        eps = self.eps or usual
        return subject.paced(Budget(eps=eps, step=3 / 255 * eps / usual, steps=STEPS))

    def parts(self, subject: Subject) -> list[Part]:
        """One part per attack."""
        cut, budget, shared = subject.full_passes(), self.budget(subject), subject.shared_passes
        return [Part(name, self._attack(subject, name, budget, shared), cut, budget=budget) for name in GOALS]

    def _attack(
        self, subject: Subject, name: str, budget: Budget, shared: SharedPasses | None
    ) -> Callable[[slice], dict[str, Tensor]]:
        published = self.mode == "published"
        goal: dict[str, object] = {"name": name}
        if published and name in ("ltm", "gtm"):
            goal["published"] = True

        def kept(found: Attacked) -> dict[str, Tensor]:
            return found.measures | ({"shift": -found.previous} if published and name == "es" else {})

        return subject.attack_on(name, goal, budget, kept, draws="search", asks=name not in UPWARDS, shared=shared)

    def figures(self, subject: Subject, measured: dict[str, dict[str, Tensor]]) -> Figures:
        """The ten scores, ERS, and clean R@1 beside it."""
        from holdfast.audit.figures import Figures

        figures = Figures(subject.seed, PUBLISHED_BATCH if self.mode == "published" else None)
        figures.clean(subject)
        scores = {key: s.scale * measured[s.goal][s.measure].double() for key, s in SCORES.items()}
        for key, values in scores.items():
            figures.mean(key, values)
        whole = ers_score(scores)
        figures.mean("ERS", whole)
        if figures.values["ERS"] is not None and bool(whole.isnan().any()):  # images that some of the ten leave out
            figures.statistic("ERS", lambda rows: _score_of(scores, rows), len(whole))
            figures.values["ERS"] = ers_score({key: figures.values[key] for key in SCORES})
        return figures


def _score_of(scores: Mapping[str, Tensor], rows: Tensor) -> float:
    """ERS of some images, each of the ten over those that it counts."""
    return float(ers_score({key: values[rows].nanmean() for key, values in scores.items()}))


def ers_score(scores: Mapping[str, V]) -> V:
    """ERS = mean(2·CA+, 100-CA-, 2·QA+, 100-QA-, 100(1-TMA), 50(2-ES:D), ES:R, LTM, GTM, GTT); higher is more robust.

    It rewards collapse: a model that maps everything to one point scores about 30. Read it beside R@1.

    Args:
        scores: the ten figures under their keys, `TMA` a cosine, `ES:D` a distance, the others percentages; numbers, or
            tensors with one value per image.
    """
    missing = [key for key in SCORES if key not in scores]
    if missing:
        raise DataError(f"ERS needs all ten scores; missing: {', '.join(missing)}")
    total: Any = sum(score.term(scores[key]) for key, score in SCORES.items())
    mean: V = total / len(SCORES)
    return mean


def usual_eps(size: int) -> float:
    """The eps that the scores are published with, in pixel units, by the size of the images."""
    return 77 / 255 if size == SMALL_IMAGES else 8 / 255
