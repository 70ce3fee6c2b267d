"""Trainings that the studies of hardness manipulation share: an equal one is built equal, and so is run once.

Miners go by the paper's letters: R random, M semihard, S softhard, D distance, H hardest.
"""

from __future__ import annotations

from typing import Any

from holdfast.studies.catalogue.paper_settings import MOBILENET, MOBILENET_BUDGET
from holdfast.studies.jobs import Audit, Measure, Scale, Training

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
EPOCHS: dict[Scale, int] = {"pocket": 24, "paper": int(MOBILENET["epochs"])}

_COMMON: dict[Scale, dict[str, Any]] = {
    "pocket": {"on_collapse": "warn"},
    "paper": {**MOBILENET, "on_collapse": "warn"},
}

SETTINGS: dict[Scale, str] = {
    "pocket": f"Glyphs, conv-small, ERS of {AUDITED} images.",
    "paper": f"MobileNetV2 in place of ResNet-18, ERS of {AUDITED} images against the whole gallery. "
    f"{MOBILENET_BUDGET} The paper has 150 epochs of 112 classes × 2 images on two devices, Adam at a constant 1e-5.",
}
"""For notes."""


def audits(*, both: bool = False) -> tuple[Measure, ...]:
    """ERS with the attacks as they should be, and as they were published too."""
    return tuple(Audit(mode=mode, limit=AUDITED) for mode in ("fixed", *(["published"] if both else [])))


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
    over: dict[str, Any] | None = None,
) -> Training:
    """A training of the family.

    Args:
        scale: which size of the recipe.
        recipe: its name at paper size.
        settings: what sets this training apart.
        epochs: those of the scale when left out.
        data: the scale's own when left out.
        measures: the fixed ERS audit when left out.
        over: settings over all others, for rows that differ in one of them.
    """
    length = epochs or EPOCHS[scale]
    small = "triplet-pocket" if recipe == "resnet18-triplet" else f"{recipe}-pocket"
    return Training(
        recipe=small if scale == "pocket" else recipe,
        data=data or ("glyphs" if scale == "pocket" else "cub"),
        settings={**_COMMON[scale], "epochs": length, "evaluate_every": length, **settings, **(over or {})},
        measures=audits() if measures is None else measures,
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
        more: `epochs`, `data`, `measures` and `over`, as for `trained`.
    """
    known = isinstance(destination, str) and destination in MINERS
    settings = {
        "regime.source": miner(scale, source),
        "regime.destination": miner(scale, str(destination)) if known else destination,
        "regime.budget.steps": steps or STEPS[scale],
        **{f"regime.{key}": value for key, value in (regime or {}).items()},
    }
    return trained(scale, "hm-lga", settings, **more)
