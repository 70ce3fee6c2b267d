"""What a paper's YAML file says, as it reads at one scale."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.config import instantiate
from holdfast.errors import RecipeError
from holdfast_studies import base
from holdfast_studies.claims import Claim, Ordered
from holdfast_studies.declared import at_scale, declared
from holdfast_studies.jobs import SCALES
from holdfast_studies.page import PAPERS

WORDS: dict[str, Any] = {
    "here": {"pocket": "glyphs", "paper": "CUB"},
    "table": [{"kind": "+A", "printed": [2.0, 1.0]}, {"kind": "+U", "printed": []}],
    "claim": {"text": "{kind} on {here}"},
}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("on {here}, {here}", "on CUB, CUB"),
        ({"pocket": 1, "paper": 2}, 2),
        ({"a": {"pocket": 1}, "b": 3}, {"b": 3}),
        ({"{here}": "{table}"}, {"CUB": WORDS["table"]}),
        ([{"scale": "pocket", "a": 1}, {"scale": "paper", "a": 2}], [{"a": 2}]),
        ([{"each": {"n": [1, 2]}, "a": "{n}", "b": "n {n}"}], [{"a": 1, "b": "n 1"}, {"a": 2, "b": "n 2"}]),
        (
            [{"each": "{table}", "k": "{kind}", "p": "{printed}"}],
            [{"k": "+A", "p": [2.0, 1.0]}, {"k": "+U", "p": []}],
        ),
        (
            [{"each": "{table}", "of": ["{claim}", {"each": {"n": [1]}, "k": "{kind}{n}"}]}],
            [{"text": "+A on CUB"}, {"k": "+A1"}, {"text": "+U on CUB"}, {"k": "+U1"}],
        ),
        ([{"each": [], "a": 1}], []),
        ([1, "x", None, True, 0.5], [1, "x", None, True, 0.5]),
    ],
)
def test_values_read_at_paper_scale(value: Any, wanted: Any) -> None:
    assert at_scale(value, "paper", WORDS) == wanted


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        at_scale("on {nowhere}", "paper", WORDS)


def test_a_study_that_no_file_declares_is_refused() -> None:
    with pytest.raises(LookupError, match="A99"):
        declared("A99", "paper")


def test_every_study_has_a_part_of_the_page() -> None:
    assert {name[0] for name in base.names()} <= set(PAPERS)


def test_claims_are_checked_as_blocks_of_recipes_are() -> None:
    block = {"name": "ordered", "text": "a above b", "arms": ["a", "b"], "printed": [2, 1]}
    assert instantiate(Claim, block) == Ordered("a above b", ("a", "b"), printed=(2.0, 1.0))
    for wrong, named in (({"name": "orderd"}, "ordered"), ({"lest": 1}, "least"), ({"arms": "a"}, "arms")):
        with pytest.raises(RecipeError, match=named):
            instantiate(Claim, {**block, **wrong})


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", base.names())
def test_no_word_is_left_over(name: str, scale: Any) -> None:
    found = base.get(name).plan(scale)
    texts = [found.notes, *(claim.text for claim in found.claims), *(drawing.title for drawing in found.drawings)]
    assert not [text for text in [*texts, *found.columns] if "{" in text]
    assert set(declared(name, scale)) <= {
        *("source", "published", "notes", "ours", "claims", "drawings", "columns", "printed", "rules"),
    }
