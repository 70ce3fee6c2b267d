"""Errors a person can act on.

Everything a user can get wrong ends in a `HoldfastError`: one line that says what happened and what to do next. The
command line prints it and leaves with exit code 2; a traceback means a defect of holdfast.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from typing import Any, ClassVar

FEW = 8
"""So many valid words still read well in one line."""

MOST = 60
"""More valid words (timm has over a thousand) are not written out, nor is a longer wrong one."""

LONGEST = 1000
"""Of a message; the middle of a longer one is left out, so that what happened and what to do both stay."""

HARMFUL = ("Cc", "Cs", "Zl", "Zp")
"""Signs that steer a terminal, break a line or cannot be written to a file; names of files may hold them."""

TURNED = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Signs that let a name read backwards."""


class HoldfastError(Exception):
    """Something the user can mend; the message is one line and says how, whatever the names in it are made of."""

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str = "") -> None:
        line = one_line(message)
        super().__init__(line if len(line) <= LONGEST else f"{line[: LONGEST - 305]} ... {line[-300:]}")


class RecipeError(HoldfastError):
    """A recipe holds an unknown key, a wrong type or an impossible value."""


class DataError(HoldfastError):
    """Images, labels or splits are not as they must be."""


class ModelError(HoldfastError):
    """A model cannot be built, loaded or used as asked."""


class SearchError(HoldfastError):
    """An index cannot be read, searched or added to as asked."""


class TrainingError(HoldfastError):
    """Training cannot go on; what was saved before is kept."""


def described(error: BaseException) -> str:
    """Kind and message of an error from somebody else's code, in one line."""
    return f"{type(error).__name__}: {one_line(str(error))[:200]}"


def reason(error: BaseException, most: int = 200) -> str:
    """What an error from somebody else's code says, in one line; its kind where it says nothing.

    Args:
        error: theirs.
        most: signs of it.
    """
    return one_line(str(error))[:most] or type(error).__name__


def one_line(text: str) -> str:
    """Text of a stranger as one line that a terminal only shows: control characters are written out."""
    return text if text.isascii() and text.isprintable() else harmless(" ".join(text.split()))


def harmless(text: str) -> str:
    """Text with names of a stranger that a terminal only shows: control characters are written out, lines stay."""
    return "".join(
        sign.encode("unicode_escape").decode()
        if sign != "\n" and (unicodedata.category(sign) in HARMFUL or sign in TURNED)
        else sign
        for sign in text
    )


def shown(value: Any) -> str:
    """A value from a file as a message quotes it: short, whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of more digits than Python prints; nested without end
        text = f"a {type(value).__name__} too long to write out"
    return text if len(text) <= MOST else f"{text[:MOST]}..."


def plural(count: int, noun: str) -> str:
    """A number with its noun: `1 class`, `2 classes`, `1,000 queries`."""
    return f"1 {noun}" if count == 1 else f"{count:,} {many(noun)}"


def many(noun: str) -> str:
    """More than one: `classes`, `queries`."""
    if noun.endswith("ry"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "tch", "rch")) else f"{noun}s"


def unknown(kind: str, word: str, valid: Iterable[str]) -> str:
    """One line for a misspelt name: the nearest valid spelling if there is one, and all of them where they are few."""
    options = sorted(valid)
    word = " ".join(word.split())[:MOST]  # it may come from a file
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.6)
    if close:
        nearest = f"unknown {kind} '{word}'; did you mean '{close[0]}'?"
        return f"{nearest} (valid: {', '.join(options)})" if len(options) <= FEW else nearest
    if not options:
        return f"unknown {kind} '{word}'; none are accepted here"
    more = f" and {len(options) - FEW:,} more" if len(options) > MOST else ""
    return f"unknown {kind} '{word}'; valid: {', '.join(options[: FEW if more else None])}{more}"
