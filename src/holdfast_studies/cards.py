"""Model cards of the recipes that ship by name, from what their study measured of the models that they make."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable

from holdfast.audit.ers import TERMS
from holdfast.training.recipe_files import about
from holdfast_studies.base import Study
from holdfast_studies.jobs import Arm, AuditMeasure, Scale, Training
from holdfast_studies.page import Finished, template
from holdfast_studies.results import Results, spread
from holdfast_studies.tables import SECONDS, Table, duration, on_one_device

STUDY = "X5"
"""Whose arms are recipes that ship by name."""
CLEAN = ("R@1", "mAP@R", "NMI")
FIXED, WORST = "ers-fixed", "worst"
STRENGTHS = ("2/255", "4/255", "8/255")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipeCard:
    """What is known of the models that a recipe makes.

    Args:
        recipe: its name.
        summary: the head of its file.
        data: that it was trained on.
        attacked: images, by the prefix of an audit's figures.
        facts: how it was trained.
        figures: of clean retrieval and under attack, mean and deviation of the seeds.
        terms: the ten figures of ERS.
    """

    recipe: str
    summary: str
    data: str
    attacked: dict[str, int | None]
    facts: Table
    figures: Table
    terms: Table


def cards_text(found: Iterable[Finished]) -> str:
    """The page.

    Args:
        found: the study at each scale.
    """
    cards = [card for one in found for card in cards_of(one.study, one.plain["scale"], one.results)]
    return template("cards.md").render(cards=cards)


def cards_of(study: Study, scale: Scale, results: Results) -> list[RecipeCard]:
    """A card for each arm that is a recipe by its name and was measured."""
    named = [(arm, arm.job) for arm in study.arms(scale) if isinstance(arm.job, Training)]
    own = [(arm, job) for arm, job in named if arm.name == job.recipe and results.values(arm.name, "R@1")]
    return [_card(arm, job, results) for arm, job in own]


def _card(arm: Arm, job: Training, results: Results) -> RecipeCard:
    outcomes = [outcome for outcome in results.outcomes[arm.name] if not outcome.stopped]
    recipe, timed = job.resolved(outcomes[0].seed), on_one_device(outcomes)
    plain, first = recipe.plain(), recipe.first()
    model = plain["model"]
    seconds = statistics.fmean(outcome.known(SECONDS) or 0.0 for outcome in timed)
    facts = {
        "backbone": f"{model['backbone']}, {model['dim']} dims" + (f", {model['size']} px" if model["size"] else ""),
        "regime": plain["regime"]["name"],
        "loss": plain["loss"]["name"],
        "epochs": str(plain["epochs"]) + (f", after {first.epochs} of plain training" if first else ""),
        "seeds": ", ".join(str(outcome.seed) for outcome in outcomes),
        "passes per step": spread(results.values(arm.name, "log/passes"), "log/passes"),
        "time": f"{duration(seconds)} on {timed[0].device}" + (", the plain one not counted" if first else ""),
        "recipe": recipe.digest(),
    }
    audits = [measure for measure in job.measures if isinstance(measure, AuditMeasure)]
    columns = {
        **{name: name for name in CLEAN},
        "ERS": f"{FIXED}/ERS",
        "ERS, published form": "ers-published/ERS",
        **{f"worst R@1 at {eps}": f"{WORST}/eps={eps} R@1" for eps in STRENGTHS},
    }

    def row(figures: dict[str, str]) -> Table:
        return [*figures], [[spread(results.values(arm.name, figure), figure) for figure in figures.values()]]

    return RecipeCard(
        recipe=job.recipe,
        summary=about(job.recipe).summary,
        data=plain["data"]["name"],
        attacked={measure.prefix: measure.limit for measure in audits},
        facts=(["training", ""], [[key, value] for key, value in facts.items()]),
        figures=row(columns),
        terms=row({name: f"{FIXED}/{name}" for name in TERMS}),
    )
