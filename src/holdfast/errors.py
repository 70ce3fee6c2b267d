"""Errors a person can act on.

Everything a user can get wrong ends in a `HoldfastError`: one line that says what happened and what to do next. The
command line prints it and leaves with exit code 2; a traceback means a defect of holdfast.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class HoldfastError(Exception):
    """Something the user can mend; the message is one line and says how."""

    exit_code: ClassVar[int] = 2


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


FEW = 8
"""So many valid words still read well in one line."""

MOST = 60
"""More valid words (timm has over a thousand) are not written out, nor is a longer wrong one."""


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
