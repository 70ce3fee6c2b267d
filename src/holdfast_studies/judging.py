"""Claims of a study against its results, each on the ground that its arms stand on."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast_studies.base import Study
from holdfast_studies.claims import Claim
from holdfast_studies.jobs import Arm, Scale
from holdfast_studies.results import Outcome, Results
from holdfast_studies.setting import Setting, joint, settings
from holdfast_studies.verdict import LEVEL, Standing, Verdict

JUDGEMENT = re.compile(rf"\[(holds|does not hold|undecided)\] |, {LEVEL}")
"""What parts of a claim come to, in its evidence."""


def verdicts(study: Study, scale: Scale, results: Results) -> list[Verdict]:
    """What its claims come to."""
    grounds = settings(study.arms(scale))
    return [judged(claim, results, grounds, study.ours) for claim in study.claims(scale)]


def judged(claim: Claim, results: Results, grounds: Mapping[str, Setting], ours: bool = False) -> Verdict:
    """One claim: a verdict where every arm that it reads runs in the paper's setting or a shorter one.

    Args:
        claim: which.
        results: of all arms.
        grounds: arm → whose setting it runs in.
        ours: the claim is of no paper, and judged in any setting.
    """
    found, read = claim.verdict(results), arms_read(claim, results)
    ground = joint(grounds[arm] for arm in read if arm in grounds)
    standing: Standing = "verdict" if ground.decides(claim.of_levels) else "observation"
    if claim.limit or ours:
        standing = "limit" if claim.limit else "ours"
    evidence = found.evidence if standing in ("verdict", "ours") else JUDGEMENT.sub("", found.evidence)
    return dataclasses.replace(found, evidence=evidence, ground=ground, standing=standing, reading=claim.reading)


def arms_read(claim: Claim, results: Results) -> set[str]:
    """The arms whose results a claim looks at, found by letting it look."""
    noted = _Noting(results.outcomes)
    claim.verdict(Results(outcomes=noted))
    return noted.asked


def mixed_readings(claims: Sequence[Claim], arms: Sequence[Arm], results: Results) -> list[str]:
    """Claims that read arms of another reading than their own, which may say more; a study has none."""
    readings = {arm.name: arm.reading for arm in arms}
    return [
        claim.text
        for claim in claims
        if not all(claim.reading.startswith(readings.get(arm, "")) for arm in arms_read(claim, results))
    ]


class _Noting(dict[str, list[Outcome]]):
    """Outcomes that note the arms they are asked for."""

    def __init__(self, content: Mapping[str, list[Outcome]]) -> None:
        super().__init__(content)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> list[Outcome]:
        self.asked.add(key)
        return super().__getitem__(key)
