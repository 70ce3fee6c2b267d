"""The sections of a run's page, one file each: what it collects of the model, and how files become what is shown."""

from __future__ import annotations

from holdfast.report.context import Section
from holdfast.report.sections import (
    attacks,
    clean,
    confusions,
    curves,
    distances,
    drift,
    eps_curve,
    flags,
    map,
    others,
    provenance,
    recipe,
    strips,
    triplet,
)

SECTIONS: tuple[Section, ...] = (
    flags.SECTION,
    recipe.SECTION,
    curves.SECTION,
    clean.SECTION,
    attacks.SECTION,
    eps_curve.SECTION,
    strips.SECTION,
    distances.SECTION,
    map.SECTION,
    confusions.SECTION,
    triplet.SECTION,
    drift.SECTION,
    others.SECTION,
    provenance.SECTION,
)
"""In the order of the page."""
