"""The sections of a run's page, one file each: what it collects of the model, and how files become what is shown."""

from __future__ import annotations

from holdfast.report.context import Section
from holdfast.report.sections import (
    attacks,
    classes,
    clean,
    confusions,
    curves,
    distances,
    drift,
    eps_curve,
    failures,
    flags,
    map,
    natural,
    others,
    provenance,
    recipe,
    robust,
    strips,
    triplet,
)

SECTIONS: tuple[Section, ...] = (
    flags.SECTION,
    recipe.SECTION,
    curves.SECTION,
    clean.SECTION,
    classes.SECTION,
    failures.SECTION,
    confusions.SECTION,
    map.SECTION,
    robust.SECTION,
    natural.SECTION,
    attacks.SECTION,
    eps_curve.SECTION,
    strips.SECTION,
    distances.SECTION,
    triplet.SECTION,
    drift.SECTION,
    others.SECTION,
    provenance.SECTION,
)
"""In the order of the page."""
