"""Rules of claims that no form of `holdfast_studies.claims` fits, each of one paper or of ours."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

from holdfast_studies.claims import Claim, Judged, Near, Ordered, Verdict, joint, register, ruled
from holdfast_studies.results import NOT_RUN, ONE_SEED, Results, SeedInterval, Status, difference, interval


@register("lower")
@dataclasses.dataclass(frozen=True)
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


@register("peak")
def peak(text: str, arms: tuple[str, ...], noise: float, figure: str = "R@1", reading: str = "") -> Judged:
    """Some inner arm lies above both ends; refuted if every one is below an end.

    Args:
        text: the claim in words.
        arms: from one end to the other.
        noise: half-width to assume on one seed.
        figure: what is compared.
        reading: as in `Claim`.
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

    return Judged(text, rule, reading=reading)


STRONG = 0.5
"""A rank correlation from which one may speak of a prediction."""


@register("no-prediction")
def no_prediction(text: str, predictors: dict[str, str], start: str, figure: str = "R@1") -> Judged:
    """A figure of the start model leaves open which arm gains most over it.

    The rank correlation of means over seeds (Fisher's z, standard deviation sqrt(1.06 / (n - 3))) is asked two
    questions, each wrong in one case of twenty: is it within `STRONG` of zero on both sides (two one-sided bounds at
    95 %)? Then the claim holds. Is it not zero (a two-sided interval)? Then it does not, whether hard attacks help more
    or less.

    Args:
        text: the claim in words.
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

    return Judged(text, rule)


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Rank correlation, ties at their mean rank; None where one side does not vary."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return statistics.correlation(_ranks(one), _ranks(other))


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(v < value for v in values) + (sum(v == value for v in values) - 1) / 2 for value in values]


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


def used(text: str, grid: Mapping[float, str], rate: float, noise: float = 0.0) -> Judged:
    """The learning rate that tables use is the one that the validation classes prefer.

    Args:
        text: the claim in words.
        grid: learning rate → arm.
        rate: the one that tables use.
        noise: the rate in use stays where another is better by no more than this.
    """

    def rule(results: Results) -> tuple[Status, str]:
        means = {tried: results.mean(arm, VALIDATION) for tried, arm in sorted(grid.items())}
        known = {tried: mean for tried, mean in means.items() if mean is not None}
        told = "; ".join(f"{tried:g}: {NOT_RUN if mean is None else f'{mean:.1f}'}" for tried, mean in means.items())
        evidence = f"{VALIDATION} {told}"
        if len(known) < len(means):
            return "undecided", evidence
        preferred = max(known, key=lambda tried: known[tried])
        if rate in known and known[preferred] - known[rate] <= noise:
            preferred = rate
        if preferred in (min(known), max(known)):
            return "does not hold", f"{evidence}; the best lies at the edge: try rates beyond {preferred:g}"
        return "holds" if preferred == rate else "does not hold", f"{evidence}; used is {rate:g}"

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
        steady: two arms of the rule that should lose less.
        other: two arms of the other.
        noise: half-width to assume on one seed.
        limit: as in `Claim`.
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


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure on both kinds of classes.

    Args:
        test: its name on the test classes.
        validation: its name on the validation classes.
        noise: what two arms may differ by with one seed and no cause.
        equal: a figure that is not lower by more counts as equal. One seed can show that only for a figure that is
            clearly higher; several seeds can.
    """

    test: str
    validation: str
    noise: float
    equal: float


@dataclasses.dataclass(frozen=True)
class ChosenBeatsEach(Claim):
    """The combination that validation classes choose beats every part alone on the test classes.

    To beat is to be higher in one figure and not lower in the other by more than counts as equal. Chosen is the
    combination whose worst comparison with a part comes out best on the validation classes, means over seeds; test
    figures have no say in it. Nothing is chosen before all arms have been run.

    Args:
        parts: arms with one of the ideas.
        combinations: arms with several.
        figures: the two that are weighed against each other.
    """

    parts: tuple[str, ...]
    combinations: tuple[str, ...]
    figures: tuple[Figure, Figure]

    def verdict(self, results: Results) -> Verdict:
        """Choose, then judge."""
        chosen = self.choice(results)
        if chosen is None:
            return Verdict(claim=self.text, status="undecided", evidence=f"validation figures of some arms: {NOT_RUN}")
        statuses: list[Status] = []
        evidence = [f"chosen on validation classes: {chosen}"]
        for part in self.parts:
            gaps = [difference(results, chosen, part, f.test, f.noise) for f in self.figures]
            statuses.append(self._beats(gaps))
            shown = ", ".join(
                f"{f.test} {NOT_RUN if gap is None else gap}" for f, gap in zip(self.figures, gaps, strict=True)
            )
            evidence.append(f"[{statuses[-1]}] over {part}: {shown}")
        return Verdict(claim=self.text, status=joint(statuses), evidence="; ".join(evidence))

    def choice(self, results: Results) -> str | None:
        """The combination with the best worst comparison on validation classes."""
        worst = {}
        for combination in self.combinations:
            margins = [self._margin(results, combination, part) for part in self.parts]
            known = [margin for margin in margins if margin is not None]
            if len(known) < len(margins):
                return None
            worst[combination] = min(known)
        return max(worst, key=lambda name: worst[name])

    def _margin(self, results: Results, combination: str, part: str) -> float | None:
        """By how much a combination beats a part, or how far it falls short: below zero."""
        gaps = []
        for figure in self.figures:
            ours, theirs = (results.mean(arm, figure.validation) for arm in (combination, part))
            if ours is None or theirs is None:
                return None
            gaps.append((ours - theirs) / figure.equal)
        return max(gaps) if min(gaps) >= -1 else min(gaps)

    def _beats(self, gaps: list[SeedInterval | None]) -> Status:
        """Higher in the first at an equal second, or the other way round."""
        ways = []
        for higher in (0, 1):
            up, level = gaps[higher], gaps[1 - higher]
            if up is None or level is None:
                return "undecided"
            ways.append(joint([up.status(), level.status(-self.figures[1 - higher].equal)]))
        if "holds" in ways:
            return "holds"
        return "does not hold" if set(ways) == {"does not hold"} else "undecided"


@register("close")
def close(text: str, arm: str, expected: dict[str, float], within: float) -> Judged:
    """All of some figures of an arm lie close to expected ones.

    Args:
        text: the claim in words.
        arm: whose figures.
        expected: figure → what a plain script found.
        within: points by which each may differ.
    """

    def rule(results: Results) -> tuple[Status, str]:
        found = {figure: results.mean(arm, figure) for figure in expected}
        shown = "; ".join(
            f"{figure}: {NOT_RUN if value is None else f'{value:.1f}'}, script {expected[figure]:g}"
            for figure, value in found.items()
        )
        if len(results.outcomes.get(arm, [])) == 1:
            shown += f" {ONE_SEED}"
        known = {figure: value for figure, value in found.items() if value is not None}
        if any(abs(value - expected[figure]) > within for figure, value in known.items()):
            return "does not hold", shown
        return ("holds" if len(known) == len(expected) else "undecided"), shown

    return Judged(text, rule)
