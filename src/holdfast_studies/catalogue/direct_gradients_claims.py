"""Claims about rules that each have a learning rate of their own."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from holdfast_studies.claims import Claim, Judged, Near, Ordered, ruled
from holdfast_studies.intervals import interval
from holdfast_studies.results import NOT_RUN, Results
from holdfast_studies.verdict import Status

VALIDATION = "log/validation R@1"


def best_rate(results: Results, arms: Sequence[str]) -> str | None:
    """The arm with the best mean on the validation classes; None where none was run. One alone needs no choosing.

    An arm with fewer seeds than another loses to it: some of its runs failed, or are still to come.
    """
    if len(arms) == 1:
        return arms[0]
    known = {arm: results.values(arm, VALIDATION) for arm in arms}
    ranked = [(len(values), statistics.fmean(values), arm) for arm, values in known.items() if values]
    return max(ranked)[2] if ranked else None


def tuned(claim: Ordered | Near, grids: Mapping[str, Sequence[str]]) -> Judged:
    """A claim on rules, each judged at its learning rate: the one it has, or the one that validation classes chose.

    Args:
        claim: its arms are rules.
        grids: rule → its arms.
    """

    def rule(results: Results) -> tuple[Status, str]:
        chosen = {name: best_rate(results, grids[name]) for name in claim.arms}
        outcomes = {name: [] if arm is None else results.outcomes.get(arm, []) for name, arm in chosen.items()}
        found = claim.verdict(Results(outcomes=outcomes))
        rates = ", ".join(arm or f"{name}: {NOT_RUN}" for name, arm in chosen.items())
        several = any(len(grids[name]) > 1 for name in claim.arms)
        return found.status, f"{found.evidence} ({'chosen on validation classes: ' if several else 'at '}{rates})"

    return ruled(claim, rule)


def used(text: str, grid: Mapping[float, str], rate: float) -> Judged:
    """The learning rate that tables use is the one that the validation classes prefer.

    Args:
        text: the claim in words.
        grid: learning rate → its arm.
        rate: the one that is used.
    """

    def rule(results: Results) -> tuple[Status, str]:
        known = {tried: results.values(arm, VALIDATION) for tried, arm in sorted(grid.items())}
        evidence = "; ".join(
            f"{tried:g}: {statistics.fmean(values):.1f}" if values else f"{tried:g}: {NOT_RUN}"
            for tried, values in known.items()
        )
        if not all(known.values()):
            return "undecided", f"validation R@1 {evidence}"
        preferred = max(known, key=lambda tried: statistics.fmean(known[tried]))
        if preferred in (min(known), max(known)):
            return (
                "does not hold",
                f"validation R@1 {evidence}; the best lies at the edge: try rates beyond {preferred:g}",
            )
        return "holds" if preferred == rate else "does not hold", f"validation R@1 {evidence}; used is {rate:g}"

    return Judged(text=text, rule=rule)


def most(text: str, parts: Sequence[Claim]) -> Judged:
    """More than half of some claims hold; refuted once so many do not that no majority is left."""

    def rule(results: Results) -> tuple[Status, str]:
        found = [part.verdict(results) for part in parts]
        counts = {status: sum(v.status == status for v in found) for status in ("holds", "does not hold")}
        evidence = f"{counts['holds']} of {len(found)} hold: " + "; ".join(f"[{v.status}] {v.evidence}" for v in found)
        if 2 * counts["holds"] > len(found):
            return "holds", evidence
        return "does not hold" if 2 * counts["does not hold"] >= len(found) else "undecided", evidence

    return Judged(text=text, rule=rule)


def steadier(text: str, steady: tuple[str, str], other: tuple[str, str], noise: float, limit: bool = False) -> Judged:
    """From a first to a second arm, one rule loses less R@1 than another.

    Args:
        text: the claim in words.
        steady: two arms of the rule that should lose less: usual and high learning rate.
        other: two arms of the other rule.
        noise: of a difference of two differences, for verdicts on one seed.
        limit: the paper does not claim it here.
    """

    def rule(results: Results) -> tuple[Status, str]:
        known = {arm: results.by_seed(arm, "R@1") for arm in (*steady, *other)}
        seeds = sorted(set.intersection(*(set(values) for values in known.values())))
        if not seeds:
            return "undecided", f"R@1 from {steady[0]} to {steady[1]}, from {other[0]} to {other[1]}: {NOT_RUN}"
        changes = {pair: [known[pair[1]][seed] - known[pair[0]][seed] for seed in seeds] for pair in (steady, other)}
        found = interval([a - b for a, b in zip(changes[steady], changes[other], strict=True)], noise)
        assert found is not None
        moves = "; ".join(f"{a} to {b}: {statistics.fmean(change):+.3g}" for (a, b), change in changes.items())
        return found.status(), f"R@1 from {moves}; difference {found}"

    return Judged(text=text, limit=limit, rule=rule)
