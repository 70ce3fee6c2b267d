"""The ten ranking attacks and the Empirical Robustness Score; its terms need no torch, so that pages can use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from holdfast.audit.base import Part, Protocol, register
from holdfast.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.attacks import Attacked, Budget
    from holdfast.audit.figures import Figures
    from holdfast.audit.subject import Subject

V = TypeVar("V")

TERMS: dict[str, Callable[[Any], Any]] = {
    "CA+": lambda v: 2 * v,
    "CA-": lambda v: 100 - v,
    "QA+": lambda v: 2 * v,
    "QA-": lambda v: 100 - v,
    "TMA": lambda v: 100 * (1 - v),
    "ES:D": lambda v: 50 * (2 - v),
    "ES:R": lambda v: v,
    "LTM": lambda v: v,
    "GTM": lambda v: v,
    "GTT": lambda v: v,
}
"""What each score adds to ERS, of numbers or tensors: 0 where the attacker always wins, about 100 where an attack
changes nothing; not clipped. All are linear: the score of a set of images is the mean over its images."""

# Key → (attack, what it measures, scale to the reported unit).
SCORES: dict[str, tuple[str, str, float]] = {
    "CA+": ("ca+", "rank", 1),
    "CA-": ("ca-", "rank", 1),
    "QA+": ("qa+", "rank", 1),
    "QA-": ("qa-", "rank", 1),
    "TMA": ("tma", "cosine", 1),
    "ES:D": ("es", "shift", 1),
    "ES:R": ("es", "hit", 100),
    "LTM": ("ltm", "hit", 100),
    "GTM": ("gtm", "hit", 100),
    "GTT": ("gtt", "top4", 100),
}
GOALS = tuple(dict.fromkeys(goal for goal, _, _ in SCORES.values()))
SMALL_IMAGES = 28
STEPS = 32


@register("ers")
class Ers(Protocol):
    """Ten ranking attacks on every image and their score, ERS.

    32 steps of 3/255 in a ball of 8/255 (77/255 on 28-pixel images), from the image itself, last iterate. The gallery
    is the whole clean split. `published` repeats the deviations of the published scores: GTM's misread index, LTM's own
    copy, ES:D one step early, and means of batch means.

    Args:
        mode: `fixed` or `published`.
        eps: radius in pixel units; the step keeps its proportion.

    Requirements: labels, two or more images per class.
    Relations: `thorough` looks for the worst case of each query; ERS averages over aims.
    Reference: HM, Section 4.
    """

    modes: ClassVar[tuple[str, ...]] = ("fixed", "published")

    def budget(self, subject: Subject) -> Budget:
        """8/255, or 77/255 for 28 pixels, or as asked."""
        from holdfast.attacks import Budget

        usual = usual_eps(subject.size)
        eps = self.eps or usual
        return Budget(eps=eps, step=3 / 255 * eps / usual, steps=STEPS)

    def parts(self, subject: Subject) -> list[Part]:
        """One part per attack; targets are drawn for all images at once."""
        from holdfast.audit.batches import PUBLISHED_BATCH

        published = self.mode == "published"
        block = PUBLISHED_BATCH if published else None
        return [Part(goal, self._attack(subject, goal, published), block) for goal in GOALS]

    def _attack(self, subject: Subject, name: str, published: bool) -> Callable[[slice], dict[str, Tensor]]:
        from holdfast import attacks

        arguments = {"published": True} if published and name in ("ltm", "gtm") else {}
        goal = attacks.build(name, **arguments)
        budget = self.budget(subject)
        bound = goal.bind(subject.references, subject.rows, subject.generator("targets", name))

        def attack(block: slice) -> dict[str, Tensor]:
            images = subject.images(subject.rows[block])
            generator = subject.generator("search", name, block.start)
            result: Attacked = subject.attack(images, bound.take(block), budget, generator)
            measures = dict(result.measures)
            if published and name == "es":
                measures["shift"] = -result.previous
            return measures

        return attack

    def figures(self, subject: Subject, measured: dict[str, dict[str, Tensor]]) -> Figures:
        """The ten scores, ERS, and clean R@1 beside it."""
        from holdfast.audit.batches import PUBLISHED_BATCH
        from holdfast.audit.clean import clean_figures
        from holdfast.audit.figures import Figures

        figures = Figures(subject.seed, PUBLISHED_BATCH if self.mode == "published" else None)
        clean_figures(figures, subject)
        scores = {key: scale * measured[goal][name].double() for key, (goal, name, scale) in SCORES.items()}
        for key, values in scores.items():
            figures.mean(key, values)
        figures.mean("ERS", ers_score(scores))
        return figures


def ers_score(scores: Mapping[str, V]) -> V:
    """ERS = mean(2·CA+, 100-CA-, 2·QA+, 100-QA-, 100(1-TMA), 50(2-ES:D), ES:R, LTM, GTM, GTT); higher is more robust.

    It rewards collapse: a model that maps everything to one point scores about 30. Read it beside R@1.

    Args:
        scores: the ten figures under their keys, `TMA` a cosine, `ES:D` a distance, the others percentages; numbers, or
            tensors with one value per image.
    """
    missing = [key for key in TERMS if key not in scores]
    if missing:
        raise DataError(f"ERS needs all ten scores; missing: {', '.join(missing)}")
    total: Any = sum(term(scores[key]) for key, term in TERMS.items())
    mean: V = total / len(TERMS)
    return mean


def usual_eps(size: int) -> float:
    """The radius that the scores are published with, in pixel units, by the size of the images."""
    return 77 / 255 if size == SMALL_IMAGES else 8 / 255
