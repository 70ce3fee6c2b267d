"""Raw files keep enough: every claim of every study reads the same before and after."""

from __future__ import annotations

import random
from typing import Any

import pytest

from holdfast_studies import base
from holdfast_studies.jobs import SCALES, Scale
from holdfast_studies.judging import trimmed, verdicts
from holdfast_studies.results import Outcome, Results


class Everything(dict[str, Any]):
    """Has a number for every name it is asked for, from then on."""

    def __init__(self, seed: int) -> None:
        super().__init__(unused=1.0)
        self.random = random.Random(seed)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key]

    def __missing__(self, key: str) -> float:
        self[key] = 0.0 if key == "collapsed" else round(self.random.uniform(0, 100), 2)
        return float(self[key])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", base.names())
def test_verdicts_survive(name: str, scale: Scale) -> None:
    study = base.get(name)
    arms = study.arms(scale)
    asked = Results(
        outcomes={
            arm.name: [Outcome(seed=s, figures=Everything(9 * n + s)) for s in (0, 1)] for n, arm in enumerate(arms)
        }
    )
    verdicts(study, scale, asked)
    whole = Results(
        outcomes={
            arm: [Outcome(seed=o.seed, figures=dict(o.figures)) for o in own] for arm, own in asked.outcomes.items()
        }
    )
    kept = trimmed(study, scale, whole)
    assert verdicts(study, scale, kept) == verdicts(study, scale, whole)
    assert all("unused" not in outcome.figures for own in kept.outcomes.values() for outcome in own)
