"""The search for the best robust recipe: every trial, on validation classes alone (X4)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue.hardness_arms import AUDITED, ERS_NOISE, R1_NOISE
from holdfast_studies.catalogue.rules import beyond_both
from holdfast_studies.declared import at_scale, paper
from holdfast_studies.jobs import START, Arm, AuditMeasure, Scale, Training

BASE = "HM&ICS"
MEASURES = (
    AuditMeasure(split="val", limit=AUDITED, name="val-ers"),
    AuditMeasure(split="val", limit=AUDITED, eps="2/255", name="val-ers-2"),
)


@study("X4")
def search(scale: Scale) -> Plan:
    """The search for the best robust recipe, trial by trial."""
    text = _declared(scale)
    arms = [Arm(trial["name"], _training(text, trial), (0,)) for trial in text["trials"]]
    claim = f"a trial has more R@1 and more ERS than {BASE}, both beyond what a seed may do"
    figures = {"log/validation R@1": R1_NOISE, "val-ers/ERS": ERS_NOISE}
    return Plan(arms, [beyond_both(claim, BASE, tuple(arm.name for arm in arms if arm.name != BASE), figures)])


@functools.cache
def _declared(scale: Scale) -> dict[str, Any]:
    """Families and trials as they read at one scale."""
    own = paper("search")
    found: dict[str, Any] = at_scale(own["search"], scale, own["words"])
    return found


def _training(text: Mapping[str, Any], trial: Mapping[str, Any]) -> Training:
    """A trial: its own settings over those of its family, and these over those of all."""
    family, plain = text["families"][trial["family"]], text["plain"]
    settings = {**text["over"], **family.get("settings", {}), **trial.get("settings", {})}
    data = "cub" if "data.validation" in text["over"] else "glyphs"
    before = Training(plain["recipe"], data, settings=plain["settings"])
    starts = trial.get("start", False) or START in str(settings)
    return Training(family["recipe"], data, settings=settings, measures=MEASURES, start=before if starts else None)
