"""Claims about ERS, which rewards collapse: a model that has collapsed is left out of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from holdfast_studies.catalogue.hardness_arms import ERS, ERS_NOISE, PROTOCOLS, R1_NOISE
from holdfast_studies.claims import Claim, Near, Ordered, ruled
from holdfast_studies.jobs import Scale
from holdfast_studies.results import Outcome, Results, Status

NEAR_CHANCE = 3.0
"""R@1 below which a model counts as collapsed: ten times what chance gets among the 315 test classes of glyphs, three
times among CUB's 100, where the paper prints 0.8 for a collapse."""

SAME_ERS = 4.0
"""ERS within which two arms count as equal; one seed cannot tell less."""

AS_ROBUST = 3.0
"""ERS by which an arm may lie lower and be called as robust."""

AS_GOOD = 5.0
"""Points of R@1 by which an arm may lie lower and be said to keep it."""


def more_ers(text: str, *arms: str, least: float = 0.0, figure: str = ERS, printed: tuple[float, ...] = ()) -> Claim:
    """Each arm lies above the next in ERS."""
    claim = Ordered(text, arms, figure, noise=ERS_NOISE, least=least, printed=printed)
    return standing(claim, arms, favoured=arms[:-1])


def same_ers(text: str, one: str, other: str, figure: str = ERS) -> Claim:
    """Two arms differ in ERS by little."""
    arms = (one, other)
    return standing(Near(text, arms, SAME_ERS, figure, noise=ERS_NOISE), arms, favoured=arms)


def by_protocol(scale: Scale, *makers: Callable[[str], Claim]) -> list[Claim]:
    """Claims about ERS in each way that the scale measures it, which the end of their text says."""
    made = [(make(figure), suffix) for make in makers for suffix, figure in PROTOCOLS[scale].items()]
    return [dataclasses.replace(claim, text=claim.text + suffix) for claim, suffix in made]


def more_r1(text: str, *arms: str, least: float = 0.0, printed: tuple[float, ...] = ()) -> Ordered:
    """Each arm lies above the next in R@1; collapsed models count as they are."""
    return Ordered(text, arms, noise=R1_NOISE, least=least, printed=printed)


def standing(claim: Claim, arms: Sequence[str], favoured: Sequence[str]) -> Claim:
    """A claim as it reads without the seeds in which one of its arms collapsed; the evidence names those."""

    def rule(results: Results) -> tuple[Status, str]:
        gone = {arm: [o for o in results.outcomes.get(arm, []) if collapsed(o)] for arm in arms}
        kept = {arm: [o for o in results.outcomes.get(arm, []) if o not in gone[arm]] for arm in arms}
        verdict = claim.verdict(Results(outcomes=kept))
        fallen = [f"{arm} with seed {outcome.seed} collapsed" for arm in arms for outcome in gone[arm]]
        spoilt = verdict.status == "holds" and any(gone[arm] for arm in favoured)
        return "undecided" if spoilt else verdict.status, "; ".join([verdict.evidence, *fallen])

    return ruled(claim, rule)


def collapsed(outcome: Outcome) -> bool:
    """Whether a model retrieves next to nothing, or training stopped for it."""
    score = outcome.figures.get("R@1")
    return outcome.stopped is not None or (score is not None and score < NEAR_CHANCE)
