"""The ten ranking attacks and the Empirical Robustness Score."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from holdfast import attacks
from holdfast.attacks import Attacked, Budget
from holdfast.audit.base import Part, Protocol, register
from holdfast.audit.batches import PUBLISHED_BATCH
from holdfast.audit.clean import clean_figures
from holdfast.audit.figures import Figures
from holdfast.audit.score import ers_score
from holdfast.audit.subject import Subject

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
SMALL_PICTURES = 28


@register("ers")
class Ers(Protocol):
    """Ten ranking attacks on every image and their score, ERS.

    32 steps of 3/255 in a ball of 8/255 (77/255 on 28-pixel pictures), from the image itself, last iterate. The gallery
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
        usual = usual_eps(subject.size)
        eps = self.eps or usual
        return Budget(eps=eps, step=3 / 255 * eps / usual, steps=32)

    def parts(self, subject: Subject) -> list[Part]:
        """One part per attack; targets are drawn for all images at once."""
        published = self.mode == "published"
        block = PUBLISHED_BATCH if published else None
        return [Part(goal, self._attack(subject, goal, published), block) for goal in GOALS]

    def _attack(self, subject: Subject, name: str, published: bool) -> Callable[[slice], dict[str, Tensor]]:
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
        figures = Figures(subject.seed, PUBLISHED_BATCH if self.mode == "published" else None)
        clean_figures(figures, subject)
        scores = {key: scale * measured[goal][name].double() for key, (goal, name, scale) in SCORES.items()}
        for key, values in scores.items():
            figures.mean(key, values)
        figures.mean("ERS", ers_score(scores))
        return figures


def usual_eps(size: int) -> float:
    """The radius that the scores are published with, in pixel units, by the size of the pictures."""
    return 77 / 255 if size == SMALL_PICTURES else 8 / 255
