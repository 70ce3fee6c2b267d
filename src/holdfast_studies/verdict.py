"""What a claim came to, and how verdicts are joined."""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

from holdfast_studies.results import NOT_RUN
from holdfast_studies.setting import Setting

Status: TypeAlias = Literal["holds", "does not hold", "undecided"]
Standing: TypeAlias = Literal["verdict", "observation", "limit", "ours"]
"""What a result is about: a paper's claim, our own setting only, how far a claim reaches, or a claim of ours."""

PAPER = Setting(kind="paper")

ONE_SEED = "(1 seed)"
LEVEL = "half of it out of reach"
"""Signs in the evidence, as that and a status are all that a rule of its own gives."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a claim came to.

    Args:
        claim: its words.
        status: `holds`, `does not hold` or `undecided`.
        evidence: the numbers it rests on.
        parts: verdicts that it joins, where it does.
        ground: whose setting its arms run in, the weakest of them.
        standing: whether it judges the paper's claim.
        reading: of what the source leaves unsaid.
    """

    claim: str
    status: Status
    evidence: str
    parts: tuple[Verdict, ...] = ()
    ground: Setting = PAPER
    standing: Standing = "verdict"
    reading: str = ""

    @property
    def one_seed(self) -> bool:
        """Whether a number that it rests on comes from a single seed; a refutation rests on its strongest part."""
        if self.status == "does not hold" and self.parts:
            return all(part.one_seed for part in self.parts if part.status == self.status)
        return ONE_SEED in self.evidence

    @property
    def level(self) -> bool:
        """Whether it is refuted only by arms that come out level where the source has them apart."""
        if self.status != "does not hold":
            return False
        if self.parts:
            return all(part.level for part in self.parts if part.status == self.status)
        return LEVEL in self.evidence

    @property
    def unfinished(self) -> bool:
        """Whether it is open because something that it needs was not run."""
        return self.status == "undecided" and NOT_RUN in self.evidence

    @property
    def decided(self) -> bool:
        """Whether a paper's claim is decided by it."""
        return self.standing == "verdict" and self.status != "undecided"

    @property
    def words(self) -> str:
        """Its status, and what weakens it; an observation has none, because it is of another experiment."""
        if self.unfinished:
            return "not all run"
        if self.standing == "limit":
            return f"limit: {_REACH[self.status]}"
        if self.standing == "observation":
            return f"{_SEEN[self.status]} at pocket scale" if self.ground.kind == "pocket" else "observation"
        marks = {
            "shortened": self.ground.kind == "shortened",
            "stand-in backbone": self.ground.kind == "stand-in",
            "pocket scale": self.ground.kind == "pocket",
            "level": self.level,
            "one seed": self.one_seed,
        }
        weak = [word for word, true in marks.items() if true]
        return self.status + (f" ({', '.join(weak)})" if weak else "")


_REACH: dict[Status, str] = {"holds": "reaches so far", "does not hold": "ends before", "undecided": "open"}
_SEEN: dict[Status, str] = {"holds": "seen", "does not hold": "not seen", "undecided": "open"}


def at_best_undecided(status: Status) -> Status:
    """For claims that favour an arm of which a seed stopped early: what is left cannot make them hold."""
    return "undecided" if status == "holds" else status


def joint(statuses: list[Status]) -> Status:
    """All hold; or one does not; or it cannot be said."""
    if "does not hold" in statuses:
        return "does not hold"
    return "holds" if statuses and all(status == "holds" for status in statuses) else "undecided"
