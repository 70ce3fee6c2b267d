"""A claim at a price: what was spent is counted, not promised."""

from __future__ import annotations

import dataclasses

from holdfast_studies.claims import Claim, ruled
from holdfast_studies.results import Results
from holdfast_studies.verdict import Status

PASSES = "log/passes"
"""Forward and back, per batch, as the log has counted them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Price:
    """What an arm's training costs.

    Args:
        arm: whose.
        epochs: of its training.
    """

    arm: str
    epochs: int

    def passes(self, results: Results) -> float | None:
        """Over each training image in the whole run, mean over seeds; None where it was not run."""
        per_batch = results.mean(self.arm, PASSES)
        return None if per_batch is None else self.epochs * per_batch


def priced(claim: Claim, ours: Price, theirs: Price, share: float) -> Claim:
    """A claim that one arm does something for a share of another's passes; if it spent more, it is at best undecided.

    Args:
        claim: what the arm does.
        ours: the arm that should be cheaper.
        theirs: the one it is compared with.
        share: of the other's passes, at most.
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
