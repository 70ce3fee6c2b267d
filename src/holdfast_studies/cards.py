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
STRENGTHS = ("2/255", "4/255", "8/255")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipeCard:
    """What is known of the models that a recipe makes.

    Args:
        recipe: its name.
        summary: the head of its file.
        data: that it was trained on.
        facts: how it was trained.
        figures: of clean retrieval and under attack, mean and deviation of the seeds.
    """

    recipe: str
    summary: str
    data: str
    facts: Table
    figures: Table


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
        "training": f"{duration(seconds)} on {timed[0].device}" + (", the plain one not counted" if first else ""),
        "recipe": recipe.digest(),
    }
    audits = [measure for measure in job.measures if isinstance(measure, AuditMeasure)]
    limits = {measure.prefix: measure.limit for measure in audits}
    figures = {name: name for name in CLEAN}
    figures |= {f"ERS ({limits['ers-fixed']:,} images attacked)": "ers-fixed/ERS"}
    figures |= {"ERS, published form": "ers-published/ERS"}
    figures |= {f"{name}, under attack": f"ers-fixed/{name}" for name in TERMS}
    figures |= {
        f"R@1 under the worst of many attacks at {eps} ({limits['worst']:,} images attacked)": f"worst/eps={eps} R@1"
        for eps in STRENGTHS
    }
    measured = [[words, spread(results.values(arm.name, figure), figure)] for words, figure in figures.items()]
    return RecipeCard(
        recipe=job.recipe,
        summary=about(job.recipe).summary,
        data=plain["data"]["name"],
        facts=(["", ""], [[key, value] for key, value in facts.items()]),
        figures=(["on test classes", "mean ± deviation"], measured),
    )
