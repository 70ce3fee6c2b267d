"""Numbers as a page shows them, and what they mean."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from holdfast.errors import HoldfastError, many
from holdfast.metric_info import MetricInfo, stored
from holdfast.run_files import block, finite

NONE = "–"
"""Stands where a number is missing."""
SPACES = re.compile(r"[^\S\xa0\u202f]+")
"""Those at which a line may end: the spaces before a percent sign stay as they are."""
WORD_ENDS = re.compile(r"(?<=[^\W\d_][_/\\.:=+,|&-])(?=\w)|(?<=[_/\\.:=+,|@&-])(?=[^\W\d_])|(?<=[a-z])(?=[A-Z])")
"""Where a name can be broken without breaking a word or a number."""


def number(value: Any, digits: int = 1) -> str:
    """A number with so many decimals."""
    known = finite(value)
    if known is None:
        return NONE
    text = f"{known:,.{digits}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text


def percent(value: Any) -> str:
    """`78.9 %`."""
    return NONE if finite(value) is None else f"{number(value)}\u202f%"


def count(value: Any) -> str:
    """A whole number with thousands apart."""
    return number(value, 0)


def counted(value: Any, noun: str) -> str:
    """`1 epoch`, `40 epochs`, `3 queries`."""
    text = count(value)
    return f"{text} {noun if text == '1' else many(noun)}"


def with_interval(value: Any, interval: Any, digits: int = 1) -> str:
    """`46.0 (44.1–47.9)`; without the brackets where no interval is known."""
    shown = number(value, digits)
    return shown if shown == NONE else f"{shown} {brackets(span(interval), digits)}".rstrip()


def brackets(ends: tuple[float, float] | None, digits: int = 1) -> str:
    """`(44.1–47.9)`; nothing where no interval is known."""
    return f"({number(ends[0], digits)}–{number(ends[1], digits)})" if ends else ""


def change(start: float, end: float, up: str, down: str, same: str) -> str:
    """`falls from 80.0 % to 5.5 %`, with the words of the sentence for each direction."""
    first, last = percent(start), percent(end)
    return f"{same} at {last}" if first == last else f"{up if end > start else down} from {first} to {last}"


def span(interval: Any) -> tuple[float, float] | None:
    """Both ends of an interval, if it has two."""
    if not isinstance(interval, Sequence) or isinstance(interval, str) or len(interval) != 2:
        return None
    low, high = finite(interval[0]), finite(interval[1])
    return None if low is None or high is None else (low, high)


def eps(value: Any) -> str:
    """An eps in pixel units as people write it: `8/255`."""
    known = finite(value)
    return NONE if known is None else f"{255 * known:.3g}/255"


def duration(seconds: Any) -> str:
    """`46 s`, `12 min` or `3 h 20 min`."""
    known = finite(seconds)
    if known is None:
        return NONE
    if known < 99.5:
        return f"{known:.0f} s"
    minutes = round(known / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def short(text: Any, length: int = 40) -> str:
    """The text, cut where it would break a line of its own."""
    whole = SPACES.sub(" ", str(text)).strip()
    return whole if len(whole) <= length else f"{whole[: length - 1]}…"


def breakable(text: Any, length: int = 80) -> Markup:
    """A name of files or folders whole, up to a length, that may go on in the next line after `_`, `-`, `/` or `aB`."""
    return Markup("<wbr>").join(WORD_ENDS.split(short(text, length)))


def setting(value: float) -> str:
    """A number of a recipe: `8/255` where it counts grey levels, otherwise four digits of it."""
    levels = 255 * value
    if 0 < value < 0.2 and abs(levels - round(levels)) < 1e-6:
        return eps(value)
    return f"{value:.4g}"


def described(document: dict[str, Any]) -> dict[str, MetricInfo]:
    """The figures of an evaluation or an audit as it says itself or, of before 0.2, as the registered ones do."""
    if known := stored(document):
        return known
    eps, protocol = finite(block(document, "budget").get("eps_pixel")), document.get("protocol")
    return _registered(protocol if isinstance(protocol, str) else None, eps if eps and eps > 0 else None)


@functools.cache
def _registered(protocol: str | None, eps: float | None) -> dict[str, MetricInfo]:
    from holdfast import audit, metrics  # need torch; documents that describe themselves do not

    try:
        return metrics.described() if protocol is None else audit.build(protocol, eps=eps).describe()
    except HoldfastError:
        return {}
