"""A combination chosen on validation classes, and judged once on test classes."""

from __future__ import annotations

import dataclasses

from holdfast_studies.claims import Claim
from holdfast_studies.intervals import Interval, difference
from holdfast_studies.results import NOT_RUN, Results
from holdfast_studies.verdict import Status, Verdict, joint


@dataclasses.dataclass(frozen=True, kw_only=True)
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


@dataclasses.dataclass(frozen=True, kw_only=True)
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

    def _beats(self, gaps: list[Interval | None]) -> Status:
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
