"""Cards of the recipes that ship by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast_studies import base
from holdfast_studies.cards import STUDY, cards_of, cards_text
from holdfast_studies.jobs import SCALES, Scale
from holdfast_studies.page import load
from holdfast_studies.results import Outcome, Results

RESULTS = Path(__file__).parents[2] / "docs" / "results"
RECIPES = {"paper": ["robust-cub", "robust-accurate", "robust-fast"], "pocket": ["robust-pocket"]}


def outcome(seed: int, clean: float) -> Outcome:
    return Outcome(seed=seed, figures={"R@1": clean, "log/passes": 5.0, "worst/eps=8/255 R@1": 1.25})


@pytest.mark.parametrize("scale", SCALES)
def test_every_recipe_by_name_that_ran_has_a_card_and_no_other_arm(scale: Scale) -> None:
    arms = base.get(STUDY).arms(scale)
    results = Results(outcomes={arm.name: [outcome(0, 39.0), outcome(1, 41.0)] for arm in arms})
    cards = cards_of(base.get(STUDY), scale, results)
    assert [card.recipe for card in cards] == RECIPES[scale]
    figures = dict(zip(cards[0].figures[0], cards[0].figures[1][0], strict=True))
    assert figures["R@1"] == "40.0 ± 1.4"
    assert figures["worst R@1 at 8/255"] == "1.2 ± 0.0"
    assert figures["NMI"] == "-", "not measured"
    assert len(cards[0].terms[0]) == 10
    facts = dict(cards[0].facts[1])
    assert facts["seeds"] == "0, 1"
    assert "plain training" in facts["epochs"]
    assert cards_of(base.get(STUDY), scale, Results(outcomes={})) == []


def test_the_committed_page_is_made_of_the_committed_figures() -> None:
    files = [RESULTS / "raw" / scale / f"{STUDY}.json" for scale in reversed(SCALES)]
    assert cards_text(map(load, files)) == (RESULTS / "cards.md").read_text("utf-8"), "run `make results`"
