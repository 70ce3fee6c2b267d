"""What the outcome of an arm holds by its measures, and made-up results, for tests of studies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from holdfast.audit.ers import TERMS
from holdfast.audit.thorough import Thorough, label
from holdfast_studies.base import Study
from holdfast_studies.claims import Claim
from holdfast_studies.drawing import Bars, Curves, Drawing, Lines
from holdfast_studies.jobs import Arm, AuditMeasure, Scale, Training
from holdfast_studies.judging import Noting
from holdfast_studies.results import Outcome, Results

TRAINED = {"R@1", "R@2", "R@4", "NMI", "pi_ratio", "collapsed", "distance_all", "log/passes", "log/seconds"}
VALIDATED = "log/validation R@1"
STAX = {"R@1", "R@4", "NMI", "pi_ratio", "overlap", "false_overlap"}
INPUTS = ("stax", "mtax", "stax-large", "mtax-large")


def sets_of(arm: Arm) -> list[str]:
    """The auxiliary BatchNorm sets of its model."""
    assert isinstance(arm.job, Training)
    return sorted(start.name for start in arm.job.resolved(0).regime.build().sets())


def trained(arm: Arm) -> set[str]:
    """Figures of the training itself; one on validation classes only where some are kept. None of a computation."""
    if not isinstance(arm.job, Training):
        return set()
    return TRAINED | ({VALIDATED} if arm.job.resolved(0).plain()["data"]["validation"] > 0 else set())


def figures_of(arm: Arm, probed: Mapping[str, Iterable[str]] | None = None) -> set[str]:
    """Names of figures; `probed` has those of probes by their functions."""
    found = trained(arm)
    for measure in arm.job.measures:
        if not isinstance(measure, AuditMeasure):
            keys = set((probed or {})[measure.function])
        elif measure.protocol == "ers":
            keys = {"ERS", "robust R@1", *TERMS}
        elif measure.protocol == "thorough":
            assert measure.eps is not None
            all_eps = Thorough(eps=float(Fraction(measure.eps))).all_eps()
            keys = {"R@1", "breaking_eps", *(f"{label(eps)} R@1" for eps in all_eps)}
        else:
            only = (measure.settings or {}).get("only")
            keys = STAX | {f"{kind}/{key}" for kind in only or INPUTS for key in {*STAX, "success_rate"}}
            if not only:
                keys |= {f"set/{name}/{key}" for name in sets_of(arm) for key in ("R@1", "stax/R@1")}
        found |= {f"{measure.prefix}/{key}" for key in keys}
    return found


def asked(drawing: Drawing) -> tuple[set[str], set[str]]:
    """Arms and figures (or the series) that a drawing names."""
    if isinstance(drawing, Lines):
        return {arm for line in drawing.lines.values() for arm in line.values()}, {drawing.figure}
    if isinstance(drawing, Bars):
        return set(drawing.arms), set(drawing.figures.values())
    return set(drawing.arms), {drawing.series} if isinstance(drawing, Curves) else {drawing.x, drawing.y}


def made_up(values: Mapping[str, Mapping[str, float]], seeds: int = 3) -> Results:
    """Results in which every seed of an arm has the same figures."""
    return Results(
        outcomes={
            arm: [Outcome(seed=seed, figures=dict(figures)) for seed in range(seeds)] for arm, figures in values.items()
        }
    )


def undecided_before_decided_after(study: Study, scale: Scale, everything: Callable[[list[Arm]], Results]) -> None:
    """Assert that no claim is decided before all arms have run, that all are then, and that none lacks what it reads.

    `everything` makes up results in which all differences between arms are clear.
    """
    arms, claims = study.arms(scale), study.claims(scale)
    assert claims
    assert len({(claim.text, claim.reading) for claim in claims}) == len(claims)
    nothing = Results(outcomes={arm.name: [] for arm in arms})
    assert {claim.verdict(nothing).status for claim in claims} == {"undecided"}
    results = everything(arms)
    for claim in claims:
        found = claim.verdict(results)
        assert "not run" not in found.evidence
        assert found.status != "undecided", found


def arms_read(claim: Claim, results: Results) -> set[str]:
    """The arms whose results a claim looks at, found by letting it look."""
    noted = Noting(results.outcomes)
    claim.verdict(Results(outcomes=noted))
    return set(noted.asked)


def mixed_readings(claims: Sequence[Claim], arms: Sequence[Arm], results: Results) -> list[str]:
    """Texts of claims that read arms of another reading than their own, which may say more; a study has none."""
    readings = {arm.name: arm.reading for arm in arms}
    return [
        claim.text
        for claim in claims
        if not all(claim.reading.startswith(readings.get(arm, "")) for arm in arms_read(claim, results))
    ]
