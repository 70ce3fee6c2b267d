"""Trainings and claims that studies of hardness manipulation share; miners go by letters: S is softhard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast_studies.claims import Claim, Judged, Near, Ordered, joint, register, ruled
from holdfast_studies.declared import at_scale, paper
from holdfast_studies.jobs import Arm, AuditMeasure, Measure, Scale, Training
from holdfast_studies.results import NOT_RUN, Outcome, Results, Status, interval

MINERS = {"R": "random", "M": "semihard", "S": "softhard", "D": "distance", "H": "hardest"}
AUDITED = 300
"""Images whose ERS is measured, against the whole gallery."""
ERS = "ers-fixed/ERS"
STEPS, LENGTHS, SETTINGS = (paper("hardness")["arms"][key] for key in ("steps", "lengths", "settings"))

FIXED, PUBLISHED = AuditMeasure(limit=AUDITED, checks=True), AuditMeasure(mode="published", limit=AUDITED)
"""ERS with the attacks as they should be, and as they were published; the latter too where the paper's rows are."""


def noise(scale: Scale) -> tuple[float, float]:
    """What two arms may differ by with one seed and no cause, in R@1 and in ERS."""
    known = at_scale(paper("hardness")["noise"], scale, {})
    return float(known["R@1"]), float(known[ERS])


def noise_of_validation() -> tuple[float, float]:
    """The same on a few validation classes, whatever the scale: as at pocket size."""
    return noise("pocket")


def named(jobs: Mapping[str, Training], seeds: tuple[int, ...] | None = None) -> list[Arm]:
    """Arms by name, in order; `seeds` of all of them, where they are not those of the scale."""
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
    settings = {"evaluate_every": length, **SETTINGS[scale], "epochs": length, **(over or {})}
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


@register("more-ers")
def more_ers(
    text: str,
    arms: tuple[str, ...],
    figure: str = ERS,
    *,
    noise: float,
    least: float = 0.0,
    printed: tuple[float, ...] = (),
    limit: bool = False,
) -> Claim:
    """Each arm lies above the next in ERS; seeds in which one of them collapsed are left out.

    Args:
        text: the claim in words.
        arms: from the highest to the lowest.
        figure: the ERS of one protocol.
        noise: between two runs of one recipe, for verdicts on one seed.
        least: by how much at least.
        printed: ERS of each arm as the paper has it.
        limit: as in `Claim`; of another protocol than the paper's, whose figures say nothing of it.
    """
    known = () if limit else printed
    claim = Ordered(text, arms, figure, noise=noise, least=least, printed=known, limit=limit)
    return standing(claim, arms, favoured=arms[:-1])


@register("same-ers")
def same_ers(text: str, arms: tuple[str, str], within: float, figure: str, noise: float) -> Claim:
    """Two arms differ in ERS by little; seeds in which one of them collapsed are left out."""
    return standing(Near(text, arms, within, figure, noise=noise), arms, favoured=arms)


@register("levels-off")
def levels_off(text: str, arms: tuple[str, str, str], figure: str, noise: float, limit: bool = False) -> Claim:
    """The gain from the first arm to the second is larger than that to the third, which must not be a loss.

    Args:
        text: the claim in words.
        arms: with η, twice and four times as many steps; names end with `, η STEPS`.
        figure: the ERS of one protocol.
        noise: of ERS between two runs of one recipe.
        limit: as in `Claim`.
    """

    def rule(results: Results) -> tuple[Status, str]:
        below, at, above = (results.by_seed(arm, figure) for arm in arms)
        seeds = sorted(below.keys() & at.keys() & above.keys())
        bend = interval([2 * at[seed] - below[seed] - above[seed] for seed in seeds], 2 * noise)
        gain = interval([above[seed] - at[seed] for seed in seeds], noise)
        if bend is None or gain is None:
            return "undecided", NOT_RUN
        _, usual, most = (arm.rpartition(", ")[2] for arm in arms)
        evidence = f"{figure}: gain to {usual} less gain to {most}: {bend}; gain to {most}: {gain}"
        return joint([bend.status(), gain.status(-noise)]), evidence

    return standing(Judged(text, rule, limit=limit), arms, favoured=arms)


def standing(claim: Claim, arms: Sequence[str], favoured: Sequence[str]) -> Claim:
    """A claim as it reads without the seeds in which one of its arms collapsed; the evidence names those.

    Args:
        claim: about the ERS of some arms.
        arms: all that it reads.
        favoured: those that it speaks for; where one collapsed in any seed, the claim is at best undecided.
    """

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
