"""What trainings cost in passes, and claims that hold only at a price."""

from __future__ import annotations

import dataclasses

from holdfast_studies.claims import Claim, ruled
from holdfast_studies.jobs import Training
from holdfast_studies.results import Results, Status

PASSES = "log/passes"
"""Forward and back, per batch, as the log has counted them."""
ABOUT_EQUAL = 1.05
"""Share of another's passes that counts as no more."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Price:
    """What an arm's training costs.

    Args:
        arm: whose.
        epochs: of its training.
        before: passes over each training image in what it starts from.
    """

    arm: str
    epochs: int
    before: float = 0.0

    @classmethod
    def of(cls, arm: str, job: Training) -> Price:
        """That of a training, with all that it starts from."""
        return cls(arm=arm, epochs=job.resolved(0).epochs, before=_before(job))

    def passes(self, results: Results) -> float | None:
        """Over each training image in the whole run, mean over seeds; None where it was not run."""
        per_batch = results.mean(self.arm, PASSES)
        return None if per_batch is None else self.before + self.epochs * per_batch


def _before(job: Training) -> float:
    """Passes over each training image in what a training starts from, by its recipe or by another training."""
    recipes = [job.resolved(0).first(), *((job.start.resolved(0),) if job.start else ())]
    own: float = sum(recipe.epochs * recipe.regime.build().passes for recipe in recipes if recipe is not None)
    return own + (_before(job.start) if job.start else 0)


def priced(claim: Claim, ours: Price, theirs: Price, share: float) -> Claim:
    """A claim that an arm does something for a share of another's passes; at best undecided if it spent more.

    Args:
        claim: what it does.
        ours: what the arm spends.
        theirs: what the other does.
        share: of theirs that ours may be.
    """

    def rule(results: Results) -> tuple[Status, str]:
        verdict = claim.verdict(results)
        spent, whole = ours.passes(results), theirs.passes(results)
        if spent is None or whole is None:
            return "undecided", f"{verdict.evidence}; passes not known"
        evidence = f"{verdict.evidence}; passes per image: {spent:.3g} to {whole:.3g}, a share of {spent / whole:.2f}"
        dear = spent > share * whole
        return "undecided" if dear and verdict.status == "holds" else verdict.status, evidence

    return ruled(claim, rule)
