"""Model cards of the recipes that ship by name, from what their study measured of the models that they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from holdfast.audit.ers import TERMS
from holdfast.training.recipe_files import about
from holdfast_studies.base import Study
from holdfast_studies.jobs import AuditMeasure, Scale, Training
from holdfast_studies.leaderboard import CLEAN
from holdfast_studies.page import Finished, template
from holdfast_studies.results import Results, spread
from holdfast_studies.tables import Table

STUDY = "X5"
"""Whose arms are recipes that ship by name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipeCard:
    """What is known of the models that a recipe makes.

    Args:
        recipe: its name.
        summary: the head of its file.
        data: that it was trained on.
        figures: of clean retrieval and under attack, mean and deviation of the seeds.
        terms: the ten figures of ERS.
        facts: how it was trained and audited.
    """

    recipe: str
    summary: str
    data: str
    figures: Table
    terms: Table
    facts: Table


def cards_text(found: Iterable[Finished]) -> str:
    """The page.

    Args:
        found: the study at each scale.
    """
    cards = [card for one in found for card in cards_of(one.study, one.plain["scale"], one.results)]
    return template("cards.md").render(cards=cards)


def cards_of(study: Study, scale: Scale, results: Results) -> list[RecipeCard]:
    """A card for each arm that is a recipe by its name and was measured."""
    named = [arm.job for arm in study.arms(scale) if isinstance(arm.job, Training) and arm.name == arm.job.recipe]
    columns = {**{name: name for name in CLEAN}, **study.columns(scale)}
    return [_card(job, columns, results) for job in named if results.values(job.recipe, "R@1")]


def _card(job: Training, columns: dict[str, str], results: Results) -> RecipeCard:
    seeds = sorted(results.by_seed(job.recipe, "R@1"))
    recipe = job.resolved(seeds[0])
    plain, first = recipe.plain(), recipe.first()
    audits = {measure.prefix: measure.limit for measure in job.measures if isinstance(measure, AuditMeasure)}
    facts = {
        "backbone": f"{plain['model']['backbone']}, {plain['model']['dim']} dims",
        "regime": plain["regime"]["name"],
        "loss": plain["loss"]["name"],
        "epochs": str(plain["epochs"]) + (f", after {first.epochs} of plain training" if first else ""),
        "seeds": ", ".join(map(str, seeds)),
        "images attacked": ", ".join(f"{limit:,} ({prefix})" if limit else "all" for prefix, limit in audits.items()),
        "recipe": recipe.digest(),
    }

    def row(figures: dict[str, str]) -> Table:
        return [*figures], [[spread(results.values(job.recipe, figure), figure) for figure in figures.values()]]

    return RecipeCard(
        recipe=job.recipe,
        summary=about(job.recipe).summary,
        data=plain["data"]["name"],
        figures=row(columns),
        terms=row({name: f"ers-fixed/{name}" for name in TERMS}),
        facts=(["made with", ""], [[key, value] for key, value in facts.items()]),
    )
