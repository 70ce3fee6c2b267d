"""A study: a paper's claim as an experiment that can fail."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from holdfast.registry import Registry
from holdfast_studies.claims import Claim
from holdfast_studies.drawings import Curves, Drawing
from holdfast_studies.jobs import Arm, Cell, Scale
from holdfast_studies.results import ON_TEST

SEEDS: dict[Scale, tuple[int, ...]] = {"pocket": (0, 1, 2), "paper": (0,)}
"""Where neither the study nor the user says otherwise."""


class Study(ABC):
    """One study; the docstring's first line is its title.

    Class attributes:
        id: as the papers' tables are cited: `A1`.
        source: paper and table.
        published: the figures printed there, one line.
        ours: its claims are of no paper, so that they are judged in whatever setting they are about.
    """

    id: ClassVar[str]
    source: ClassVar[str]
    published: ClassVar[str]
    ours: ClassVar[bool] = False

    @abstractmethod
    def arms(self, scale: Scale) -> list[Arm]:
        """What is compared; the same job in two studies is done once. Empty where the study has no such scale."""

    @abstractmethod
    def claims(self, scale: Scale) -> list[Claim]:
        """What must come out."""

    @abstractmethod
    def columns(self, scale: Scale) -> dict[str, str]:
        """Heading → figure, of the table of arms."""

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Figures; none by default."""
        return []

    def figures(self, scale: Scale) -> list[Drawing]:
        """Its drawings, and R@1 over epochs of the arms that looked at the test classes while training."""
        arms = tuple(arm.name for arm in self.arms(scale))
        title = "R@1 on the test classes over epochs"
        return [*self.drawings(scale), Curves(title=title, arms=arms, series=ON_TEST, x="epoch", y="R@1, %")]

    def notes(self, scale: Scale) -> str:
        """What a reader must know: how this scale differs from the paper's setting."""
        return ""

    def cells(self, scale: Scale, seeds: tuple[int, ...] | None = None) -> list[Cell]:
        """All arms with all seeds, the first seed of every arm before the second of any."""
        arms = [(arm, seeds or arm.seeds or SEEDS[scale]) for arm in self.arms(scale)]
        rounds = max((len(own) for _, own in arms), default=0)
        return [
            Cell(arm=arm.name, job=arm.job, seed=own[n]) for n in range(rounds) for arm, own in arms if n < len(own)
        ]


registry: Registry[Study] = Registry("study", Study, "holdfast_studies.catalogue")
register, names = registry.register, registry.names


def get(name: str) -> Study:
    """A study by its id, in any case."""
    return registry.get(name.upper())()
