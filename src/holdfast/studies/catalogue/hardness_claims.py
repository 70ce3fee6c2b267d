"""Claims about ERS, which rewards collapse: a model that has collapsed is left out of them."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.studies.catalogue.hardness_arms import ERS, ERS_NOISE
from holdfast.studies.claims import Claim, Judged, Near, Ordered, Status
from holdfast.studies.results import Outcome, Results


def more_ers(text: str, *arms: str, least: float = 0.0, figure: str = ERS) -> Claim:
    """Each arm lies above the next in ERS.

    Args:
        text: the claim in words.
        arms: from the highest to the lowest.
        least: by how much at least.
        figure: which ERS.
    """
    return standing(Ordered(text=text, arms=arms, figure=figure, noise=ERS_NOISE, least=least), arms)


def same_ers(text: str, one: str, other: str) -> Claim:
    """Two arms differ in ERS by no more than two runs of one recipe may."""
    return standing(Near(text=text, arms=(one, other), within=ERS_NOISE, figure=ERS, noise=ERS_NOISE), (one, other))


def standing(claim: Claim, arms: Iterable[str]) -> Claim:
    """A claim as it reads without the seeds in which one of its arms collapsed; the evidence names those."""
    wanted = tuple(arms)

    def rule(results: Results) -> tuple[Status, str]:
        kept: dict[str, list[Outcome]] = {}
        fallen = []
        for arm in wanted:
            gone = {seed for seed, value in results.by_seed(arm, "collapsed").items() if value}
            kept[arm] = [outcome for outcome in results.outcomes.get(arm, []) if outcome.seed not in gone]
            fallen += [f"{arm} with seed {seed} collapsed" for seed in sorted(gone)]
        verdict = claim.verdict(Results(outcomes=kept))
        return verdict.status, "; ".join([verdict.evidence, *fallen])

    return Judged(text=claim.text, rule=rule)
