"""Trainings and claims that studies of hardness manipulation share; miners go by letters: S is softhard."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast_studies.claims import Claim, Near, Ordered, ruled
from holdfast_studies.jobs import Arm, AuditMeasure, Measure, Scale, Training
from holdfast_studies.results import Outcome, Results, Status

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

STAND_IN: dict[str, Any] = {"model.backbone": "torchvision:mobilenet_v2"}
"""ImageNet MobileNetV2 in the place of the HM paper's ResNet-18."""

_COMMON: dict[Scale, dict[str, Any]] = {
    "pocket": {"on_collapse": "warn"},
    "paper": {**STAND_IN, "on_collapse": "warn", "checkpoint_every": 500},
}


PROTOCOLS: dict[Scale, dict[str, str]] = {
    "pocket": {"": ERS},
    "paper": {"": ERS, " (published protocol)": PUBLISHED_ERS},
}
"""After the text of a claim → the ERS that it is about."""


FIXED, PUBLISHED = AuditMeasure(limit=AUDITED), AuditMeasure(mode="published", limit=AUDITED)
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


NEAR_CHANCE = 3.0
"""R@1 below which a model counts as collapsed: ten times what chance gets among the 315 test classes of glyphs, three
times among CUB's 100, where the paper prints 0.8 for a collapse."""

SAME_ERS = 4.0
"""ERS within which two arms count as equal; one seed cannot tell less."""

AS_ROBUST = 3.0
"""ERS by which an arm may lie lower and be called as robust."""

AS_GOOD = 5.0
"""Points of R@1 by which an arm may lie lower and be said to keep it."""


def more_ers(text: str, *arms: str, least: float = 0.0, figure: str = ERS, printed: tuple[float, ...] = ()) -> Claim:
    """Each arm lies above the next in ERS."""
    claim = Ordered(text, arms, figure, noise=ERS_NOISE, least=least, printed=printed)
    return standing(claim, arms, favoured=arms[:-1])


def same_ers(text: str, one: str, other: str, figure: str = ERS) -> Claim:
    """Two arms differ in ERS by little."""
    arms = (one, other)
    return standing(Near(text, arms, SAME_ERS, figure, noise=ERS_NOISE), arms, favoured=arms)


def by_protocol(scale: Scale, *makers: Callable[[str], Claim]) -> list[Claim]:
    """Claims about ERS in each way that the scale measures it, which the end of their text says."""
    made = [(make(figure), suffix) for make in makers for suffix, figure in PROTOCOLS[scale].items()]
    return [dataclasses.replace(claim, text=claim.text + suffix) for claim, suffix in made]


def more_r1(text: str, *arms: str, least: float = 0.0, printed: tuple[float, ...] = ()) -> Ordered:
    """Each arm lies above the next in R@1; collapsed models count as they are."""
    return Ordered(text, arms, noise=R1_NOISE, least=least, printed=printed)


def standing(claim: Claim, arms: Sequence[str], favoured: Sequence[str]) -> Claim:
    """A claim as it reads without the seeds in which one of its arms collapsed; the evidence names those."""

    def rule(results: Results) -> tuple[Status, str]:
        gone = {arm: [o for o in results.outcomes.get(arm, []) if collapsed(o)] for arm in arms}
        kept = {arm: [o for o in results.outcomes.get(arm, []) if o not in gone[arm]] for arm in arms}
        verdict = claim.verdict(Results(outcomes=kept))
        fallen = [f"{arm} with seed {outcome.seed} collapsed" for arm in arms for outcome in gone[arm]]
        spoilt = verdict.status == "holds" and any(gone[arm] for arm in favoured)
        return "undecided" if spoilt else verdict.status, "; ".join([verdict.evidence, *fallen])

    return ruled(claim, rule)


def collapsed(outcome: Outcome) -> bool:
    """Whether a model retrieves next to nothing, or training stopped for it."""
    score = outcome.figures.get("R@1")
    return outcome.stopped is not None or (score is not None and score < NEAR_CHANCE)
