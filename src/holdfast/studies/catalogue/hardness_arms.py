"""Trainings that the studies of hardness manipulation share: an equal one is built equal, and so is run once.

Miners go by the paper's letters: R random, M semihard, S softhard, D distance, H hardest.
"""

from __future__ import annotations

from typing import Any

from holdfast.studies.catalogue.paper_settings import MOBILENET
from holdfast.studies.jobs import Arm, Audit, Measure, Scale, Training

MINERS = {"R": "random", "M": "semihard", "S": "softhard", "D": "distance", "H": "hardest"}
GAMMA = 0.2
"""The triplet margin γ."""
ERS_NOISE = 1.5
"""What the ERS of two runs of one recipe may differ by."""
ERS = "ers-fixed/ERS"
PUBLISHED_ERS = "ers-published/ERS"
STEPS: dict[Scale, int] = {"pocket": 4, "paper": 8}
"""η where a table does not vary it. Pocket steps are twice as long, so that as many of them reach as far."""
EPOCHS: dict[Scale, int] = {"pocket": 24, "paper": int(MOBILENET["epochs"])}

_COMMON: dict[Scale, dict[str, Any]] = {
    "pocket": {"on_collapse": "warn"},
    "paper": {**MOBILENET, "on_collapse": "warn"},
}


def audits(scale: Scale, *, both: bool = False) -> tuple[Measure, ...]:
    """ERS with the attacks as they should be, and as they were published too."""
    return tuple(Audit(mode=mode, limit=300) for mode in ("fixed", *(["published"] if both else [])))


def miner(scale: Scale, letter: str) -> str | dict[str, Any]:
    """A miner as the shipped recipes of that size write it."""
    name = MINERS[letter]
    return name if scale == "pocket" else {"name": name, "anchors": "first", "variant": "published"}


def trained(
    scale: Scale,
    recipe: str,
    settings: dict[str, Any],
    *,
    epochs: int | None = None,
    data: str | None = None,
    measures: tuple[Measure, ...] | None = None,
) -> Training:
    """A training of the family.

    Args:
        scale: which size of the recipe.
        recipe: its name at paper size.
        settings: what sets this training apart.
        epochs: those of the scale when left out.
        data: the scale's own when left out.
        measures: the fixed ERS audit when left out.
    """
    length = epochs or EPOCHS[scale]
    small = "triplet-pocket" if recipe == "resnet18-triplet" else f"{recipe}-pocket"
    return Training(
        recipe=small if scale == "pocket" else recipe,
        data=data or ("glyphs" if scale == "pocket" else "cub"),
        settings={**_COMMON[scale], "epochs": length, "evaluate_every": length, **settings},
        measures=audits(scale) if measures is None else measures,
    )


def standard(scale: Scale, source: str = "S", **more: Any) -> Training:
    """Triplets without an adversary."""
    return trained(scale, "resnet18-triplet", {"loss.miner": miner(scale, source)}, **more)


def est(scale: Scale, *, steps: int | None = None, **more: Any) -> Training:
    """EST[R]."""
    return trained(scale, "est", {"regime.budget.steps": steps or STEPS[scale]}, **more)


def act(scale: Scale, source: str, *, steps: int | None = None, **more: Any) -> Training:
    """ACT with a source of triplets."""
    settings = {"regime.source": miner(scale, source), "regime.budget.steps": steps or STEPS[scale]}
    return trained(scale, "act", settings, **more)


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
        more: `epochs`, `data` and `measures`, as for `trained`.
    """
    known = isinstance(destination, str) and destination in MINERS
    settings = {
        "regime.source": miner(scale, source),
        "regime.destination": miner(scale, str(destination)) if known else destination,
        "regime.budget.steps": steps or STEPS[scale],
        **{f"regime.{key}": value for key, value in (regime or {}).items()},
    }
    return trained(scale, "hm-lga", settings, **more)


def named(arms: dict[str, Training]) -> list[Arm]:
    """Arms by name, in order."""
    return [Arm(name=name, job=job) for name, job in arms.items()]
