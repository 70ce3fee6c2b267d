"""Rules of claims that compare figures of one arm, look for a peak, or correlate."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from holdfast_studies.claims import Claim
from holdfast_studies.intervals import difference, interval
from holdfast_studies.results import NOT_RUN, Results
from holdfast_studies.verdict import Status, Verdict, joint


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lower(Claim):
    """One figure of an arm lies below another of the same arm.

    Args:
        arm: whose figures.
        figure: the lower one.
        than: the higher one.
        noise: half-width to assume on one seed.
        least: by how much at least.
    """

    arm: str
    figure: str
    than: str
    noise: float
    least: float = 0.0

    def verdict(self, results: Results) -> Verdict:
        """Compare seed by seed."""
        low, high = results.by_seed(self.arm, self.figure), results.by_seed(self.arm, self.than)
        found = interval([high[seed] - low[seed] for seed in sorted(low.keys() & high.keys())], self.noise)
        status: Status = "undecided" if found is None else found.status(self.least)
        gap = NOT_RUN if found is None else str(found)
        evidence = f"{self.arm}: {self.than} - {self.figure}: {gap}, at least {self.least:g}"
        return Verdict(claim=self.text, status=status, evidence=evidence)


def peak(arms: Sequence[str], noise: float, figure: str = "R@1") -> Callable[[Results], tuple[Status, str]]:
    """Whether some inner arm lies above both ends.

    Holds if one inner arm is above both, does not hold if every one is below an end.

    Args:
        arms: from one end to the other.
        noise: half-width to assume on one seed.
        figure: what is compared.
    """

    def rule(results: Results) -> tuple[Status, str]:
        statuses: list[Status] = []
        evidence = []
        for inner in arms[1:-1]:
            gaps = [difference(results, inner, end, figure, noise) for end in (arms[0], arms[-1])]
            statuses.append(joint(["undecided" if gap is None else gap.status() for gap in gaps]))
            shown = " and ".join(NOT_RUN if gap is None else str(gap) for gap in gaps)
            evidence.append(f"{inner} over {arms[0]} and {arms[-1]}: {shown}")
        status: Status = "undecided"
        if "holds" in statuses:
            status = "holds"
        elif all(each == "does not hold" for each in statuses):
            status = "does not hold"
        return status, f"{figure}: " + "; ".join(evidence)

    return rule


STRONG = 0.5
"""A rank correlation from which one may speak of a prediction."""


def no_prediction(
    predictors: Mapping[str, str], start: str, figure: str = "R@1"
) -> Callable[[Results], tuple[Status, str]]:
    """Whether a figure of the start model leaves open which arm gains most over it.

    The rank correlation of means over seeds (Fisher's z, standard deviation sqrt(1.06 / (n - 3))) is asked two
    questions, each wrong in one case of twenty: is it within `STRONG` of zero on both sides (two one-sided bounds at
    95 %)? Then the claim holds. Is it not zero (a two-sided interval)? Then it does not, whether hard attacks help more
    or less.

    Args:
        predictors: arm → figure of the start model that should say how much this arm gains.
        start: the model that arms are compared with.
        figure: in which they gain.
    """

    def rule(results: Results) -> tuple[Status, str]:
        points = []
        for arm, predictor in predictors.items():
            known, gain = results.mean(start, predictor), difference(results, arm, start, figure, 0.0)
            if known is not None and gain is not None:
                points.append((known, gain.mean))
        if len(points) < 4:
            have = f"{len(points)} of {len(predictors)} attacks have a hardness and a gain, a correlation needs 4"
            return "undecided", f"{NOT_RUN}: {have}"
        found = spearman(*map(list, zip(*points, strict=True)))
        if found is None:
            return "undecided", "all arms are equal in one of the two"
        centre = math.atanh(max(-0.999, min(0.999, found)))
        deviation = math.sqrt(1.06 / (len(points) - 3))
        low, high = math.tanh(centre - 1.96 * deviation), math.tanh(centre + 1.96 * deviation)
        status: Status = "undecided"
        if abs(centre) + 1.645 * deviation < math.atanh(STRONG):
            status = "holds"
        elif low > 0 or high < 0:
            status = "does not hold"
        shown = ", ".join(f"({x:.3g}, {y:+.2f})" for x, y in points)
        evidence = f"rank correlation {found:+.2f}, 95 % bounds {low:+.2f} and {high:+.2f}, over {shown}"
        return status, evidence

    return rule


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Rank correlation, ties at their mean rank; None where one side does not vary."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return statistics.correlation(_ranks(one), _ranks(other))


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(v < value for v in values) + (sum(v == value for v in values) - 1) / 2 for value in values]
