"""Trainings that the studies of hardness manipulation share: an equal one is built equal, and so is run once.

Miners go by the paper's letters: R random, M semihard, S softhard, D distance, H hardest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast_studies.catalogue.paper_settings import STAND_IN
from holdfast_studies.jobs import Arm, Audit, Measure, Scale, Training

MINERS = {"R": "random", "M": "semihard", "S": "softhard", "D": "distance", "H": "hardest"}
GAMMA = 0.2
"""The triplet margin γ."""
R1_NOISE = 6.5
"""Points of R@1 that two arms may differ by with one seed and no cause: 1.645 × the pooled standard deviation of a
difference between arms, measured at pocket scale (3.9); on CUB it is far less (0.4)."""
ERS_NOISE = 3.0
"""The same of ERS (1.8, without EST, whose ERS moves by 11; on CUB 0.2 to 0.7)."""
AUDITED = 300
"""Images whose ERS is measured, against the whole gallery."""
ERS = "ers-fixed/ERS"
PUBLISHED_ERS = "ers-published/ERS"
STEPS: dict[Scale, int] = {"pocket": 4, "paper": 8}
"""η where a table does not vary it. Pocket steps are twice as long, so that as many of them reach as far."""
LENGTHS = {"glyphs": 24, "cub": 44, "cars": 32, "sop": 5}
"""Epochs. On photographs every image is an anchor in each: 250,000 triplets and a few more; the paper's 75 epochs have
440,000 on CUB."""

_COMMON: dict[Scale, dict[str, Any]] = {
    "pocket": {"on_collapse": "warn"},
    "paper": {**STAND_IN, "on_collapse": "warn", "checkpoint_every": 500},
}


PROTOCOLS: dict[Scale, dict[str, str]] = {
    "pocket": {"": ERS},
    "paper": {"": ERS, " (published protocol)": PUBLISHED_ERS},
}
"""After the text of a claim → the ERS that it is about."""


FIXED, PUBLISHED = Audit(limit=AUDITED), Audit(mode="published", limit=AUDITED)
"""ERS with the attacks as they should be, and as they were published; the latter too where the paper's rows are."""


def scores(scale: Scale) -> dict[str, str]:
    """Columns of tables."""
    return {"ERS": ERS, **({"ERS as published": PUBLISHED_ERS} if scale == "paper" else {})}


def named(jobs: Mapping[str, Training], seeds: tuple[int, ...] | None = None) -> list[Arm]:
    """Arms by name, in order."""
    return [Arm(name, job, seeds) for name, job in jobs.items()]


def miner(scale: Scale, letter: str) -> str | dict[str, Any]:
    """A miner as the shipped recipes of that size write it."""
    name = MINERS[letter]
    return name if scale == "pocket" else {"name": name, "anchors": "first", "variant": "published"}


def trained(
    scale: Scale,
    recipe: str,
    row: dict[str, Any],
    *,
    epochs: int | None = None,
    data: str | None = None,
    measures: tuple[Measure, ...] | None = None,
    over: dict[str, Any] | None = None,
) -> Training:
    """A training of the family.

    Args:
        scale: which size of the recipe.
        recipe: its name at paper size.
        row: what sets this training apart in the paper's tables.
        epochs: those of the data when left out.
        data: the scale's own when left out.
        measures: the ERS audits of the scale when left out.
        over: settings over all others, for rows that differ in one of them.
    """
    data = data or ("glyphs" if scale == "pocket" else "cub")
    length = epochs or LENGTHS[data]
    small = "triplet-pocket" if recipe == "resnet18-triplet" else f"{recipe}-pocket"
    settings = {**_COMMON[scale], "epochs": length, "evaluate_every": length, **(over or {})}
    audits = (FIXED, PUBLISHED) if scale == "paper" else (FIXED,)
    used = audits if measures is None else measures
    return Training(small if scale == "pocket" else recipe, data, row, settings, used)


def standard(scale: Scale, source: str = "S", **more: Any) -> Training:
    """Triplets without an adversary."""
    return trained(scale, "resnet18-triplet", {"loss.miner": miner(scale, source)}, **more)


def est(scale: Scale, *, steps: int | None = None, **more: Any) -> Training:
    """EST[R]."""
    return trained(scale, "est", {"regime.budget.steps": steps or STEPS[scale]}, **more)


def act(scale: Scale, source: str, *, steps: int | None = None, **more: Any) -> Training:
    """ACT with a source of triplets."""
    row = {"regime.source": miner(scale, source), "regime.budget.steps": steps or STEPS[scale]}
    return trained(scale, "act", row, **more)


def hm(
    scale: Scale,
    source: str = "S",
    destination: str | float | dict[str, Any] = "lga",
    *,
    steps: int | None = None,
    regime: dict[str, Any] | None = None,
    **more: Any,
) -> Training:
    """HM[source, destination].

    Args:
        scale: which size of the recipe.
        source: a letter.
        destination: a letter, the name or block of a gradual one, or a number.
        steps: η.
        regime: further settings of the regime: `ics`, `ics_margin`, `u`.
        more: `epochs`, `data`, `measures` and `over`, as for `trained`.
    """
    known = isinstance(destination, str) and destination in MINERS
    row = {
        "regime.source": miner(scale, source),
        "regime.destination": miner(scale, str(destination)) if known else destination,
        "regime.budget.steps": steps or STEPS[scale],
        **{f"regime.{key}": value for key, value in (regime or {}).items()},
    }
    return trained(scale, "hm-lga", row, **more)
