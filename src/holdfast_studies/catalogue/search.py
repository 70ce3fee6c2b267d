"""The searches for the best robust recipe: every trial, on validation classes alone (X4, X6)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.extras import START
from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue.hardness_arms import AUDITED, noise_of_validation
from holdfast_studies.claims import Judged, joint
from holdfast_studies.declared import at_scale, paper
from holdfast_studies.jobs import Arm, AuditMeasure, Scale, Training
from holdfast_studies.results import NOT_RUN, Results, SeedInterval, Status, difference

BASE, FIRST = "HM&ICS", "as robust-cub"
MEASURES = (
    AuditMeasure(split="val", limit=AUDITED, name="val-ers", checks=True),
    AuditMeasure(split="val", limit=AUDITED, eps="2/255", name="val-ers-2", checks=True),
)


@study("X4")
def search(scale: Scale) -> Plan:
    """The search for the best robust recipe, trial by trial."""
    text = search_text(scale)
    return _plan(text, [trial for trial in text["trials"] if trial.get("at", scale) == scale], BASE)


@study("X6")
def second(scale: Scale) -> Plan:
    """The second search: what the model sees of an image."""
    if scale == "pocket":
        return Plan([])
    text, more = search_text(scale), search_text(scale, "second")
    plain = {**text["plain"], "settings": {**text["plain"]["settings"], **more["plain"]}}
    return _plan({**text, "over": {**text["over"], **more["over"]}, "plain": plain}, more["trials"], FIRST)


def _plan(text: Mapping[str, Any], trials: Sequence[Mapping[str, Any]], first: str) -> Plan:
    """The trials, one of which may be beyond the first."""
    arms = [Arm(trial["name"], _training(text, trial), (0,)) for trial in trials]
    claim = f"a trial has more R@1 and more ERS than {first}, both beyond what a seed may do"
    figures = dict(zip(("log/validation R@1", "val-ers/ERS"), noise_of_validation(), strict=True))
    return Plan(arms, [beyond_both(claim, first, tuple(arm.name for arm in arms if arm.name != first), figures)])


@functools.cache
def search_text(scale: Scale, which: str = "search") -> dict[str, Any]:
    """A search, or the `finals` of what was chosen, as the YAML file has it at one scale."""
    own = paper("search")
    found: dict[str, Any] = at_scale(own[which], scale, own["words"])
    return found


def _training(text: Mapping[str, Any], trial: Mapping[str, Any]) -> Training:
    """A trial: its own settings over those of its family, and these over those of all."""
    family, plain = text["families"][trial["family"]], text["plain"]
    settings = {**text["over"], **family.get("settings", {}), **trial.get("settings", {})}
    before = None
    if START in str(settings):
        before = Training(plain["recipe"], text["data"], settings={**plain["settings"], **trial.get("plain", {})})
    return Training(family["recipe"], text["data"], settings=settings, measures=MEASURES, start=before)


def beyond_both(text: str, arm: str, others: tuple[str, ...], figures: Mapping[str, float]) -> Judged:
    """One of some arms lies above another in all of some figures.

    Args:
        text: the claim in words.
        arm: to lie above.
        others: of which one does it.
        figures: and what two arms may differ by in each with one seed and no cause.
    """

    def rule(results: Results) -> tuple[Status, str]:
        known: dict[str, list[SeedInterval]] = {}
        for other in others:
            gaps = (difference(results, other, arm, figure, noise) for figure, noise in figures.items())
            found = [gap for gap in gaps if gap is not None]
            if len(found) == len(figures):
                known[other] = found
        if not known:
            return "undecided", NOT_RUN
        least = {other: min(gap.mean / gap.half for gap in gaps) for other, gaps in known.items()}
        best = max(least, key=lambda other: least[other])
        shown = ", ".join(f"{figure} {gap}" for figure, gap in zip(figures, known[best], strict=True))
        statuses = {other: joint([gap.status() for gap in gaps]) for other, gaps in known.items()}
        evidence = f"{len(known)} of {len(others)} run; nearest to it {best}: {shown}"
        if "holds" in statuses.values():
            return "holds", evidence
        whole = len(known) == len(others) and set(statuses.values()) == {"does not hold"}
        return ("does not hold" if whole else "undecided"), evidence

    return Judged(text, rule)
