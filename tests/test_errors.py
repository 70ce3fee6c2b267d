"""Messages: one line that a terminal only shows, whatever the names in them are made of."""

from __future__ import annotations

import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.data.sources import BadImage
from holdfast.errors import LONGEST, DataError, HoldfastError, plural, reason, shown

ANY = st.text(st.characters(exclude_categories=()))


@given(ANY)
def test_a_message_is_one_printable_line(text: str) -> None:
    line = str(HoldfastError(text))
    assert not any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in line)
    line.encode()
    assert len(line) <= LONGEST


@given(st.text(st.characters(categories=("L", "N", "P")), max_size=200))
def test_an_ordinary_message_stays_as_it_is(text: str) -> None:
    assert str(HoldfastError(text)) == text


def test_hostile_names_neither_colour_nor_turn_the_line() -> None:
    assert str(DataError("no image '\x1b[31mred\n\u202egpj.exe'")) == "no image '\\x1b[31mred \\u202egpj.exe'"


def test_the_reason_of_a_strangers_error_is_a_short_line_and_never_empty() -> None:
    assert reason(ValueError("two\n  lines")) == "two lines"
    assert reason(ValueError("x" * 500), 160) == "x" * 160
    assert reason(TimeoutError()) == "TimeoutError"


def test_a_long_message_keeps_both_ends() -> None:
    line = str(HoldfastError(f"cannot read {'x' * 5000}; remove it"))
    assert line.startswith("cannot read xxx")
    assert line.endswith("xxx; remove it")
    assert len(line) <= LONGEST


def test_an_error_crosses_processes() -> None:
    error = pickle.loads(pickle.dumps(BadImage("a\nb.jpg", "cut short", missing=True)))
    assert (error.where, error.missing) == ("a\nb.jpg", True)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    "value",
    [1 << 20_000, "x" * 10_000, [[["deep"] * 100] * 100], b"\xff"],
    ids=["number", "text", "list", "bytes"],
)
def test_a_shown_value_is_short(value: object) -> None:
    assert len(shown(value)) <= 63


def test_a_value_nested_without_end_is_shown() -> None:
    value: list = []
    for _ in range(100_000):
        value = [value]
    assert len(shown(value)) <= 63
    while value:  # taken apart by hand: freeing it would nest as deep
        value = value[0]


def test_a_number_and_its_noun() -> None:
    assert [plural(1, noun) for noun in ("class", "query", "box")] == ["1 class", "1 query", "1 box"]
    assert [plural(n, noun) for n, noun in ((0, "image"), (2, "class"), (1000, "query"))] == [
        "0 images",
        "2 classes",
        "1,000 queries",
    ]
