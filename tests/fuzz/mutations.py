"""Seeded damage: to plain values, to text, to bytes."""

from __future__ import annotations

import copy
import datetime
import math
import random
from collections.abc import Sequence
from typing import Any

WORDS = (
    "",
    " ",
    "name",
    "none",
    "null",
    "../../etc/passwd",
    "/dev/zero",
    "~nobody-has-this-name/x",
    "a\nb",
    "a\r\x1b[31mb",
    "\u2028",
    "\x00",
    "é" * 3,
    "日本語",
    "\U0001f600",
    "\u202egnp.exe",
    "e\u0301",
    "<script>alert(1)</script>",
    "a|b",
    "[x](javascript:1)",
    "{{ 7 * 7 }}",
    "%s%n",
    "os:system",
    "evil.py:build",
    "8/255",
    "1/0",
    "nan",
    "inf",
    "1e999",
    "0x10",
    "١٢٣",
    "x" * 5000,
    "half \ud800",
    "\udcff",
)
NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    1,
    2,
    3,
    7,
    255,
    2**31,
    2**63,
    -(2**63) - 1,
    10**30,
    10**400,
    1 << 20_000,
    0.0,
    -0.0,
    0.5,
    1.5,
    -1.5,
    1e-300,
    5e-324,
    1e300,
    math.inf,
    -math.inf,
    math.nan,
    True,
    False,
)
ODD: tuple[Any, ...] = (None, [], {}, [[]], {"name": None}, {"name": {}}, {"": ""}, b"bytes", datetime.date(1, 1, 1))


def odd_value(draw: random.Random) -> Any:
    """A value that nobody meant."""
    return copy.deepcopy(draw.choice(draw.choice((WORDS, NUMBERS, NUMBERS, ODD))))


def damaged(value: Any, draw: random.Random, most: int = 3) -> Any:
    """A copy of a plain value with one to `most` changes somewhere in it."""
    value = copy.deepcopy(value)
    for _ in range(draw.choice((1, 1, draw.randint(1, most)))):
        value = _changed(value, draw)
    return value


def json_fit(value: Any) -> Any:
    """The same without what Python's JSON cannot write; it does write NaN, infinities and half characters."""
    if isinstance(value, dict):
        return {str(key): json_fit(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_fit(inner) for inner in value]
    if isinstance(value, int) and value.bit_length() > 10_000:
        return 10**400
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _changed(value: Any, draw: random.Random) -> Any:
    places = list(_places(value))
    if not places:
        return odd_value(draw)
    holder, key = draw.choice(places)
    action = draw.randrange(8)
    if action <= 2:
        holder[key] = _other(holder[key], draw)
    elif action == 3:
        del holder[key]
    elif action == 4 and isinstance(holder, dict):
        holder[draw.choice((draw.choice(WORDS), f"{key}s", str(key)[:-1], str(key).upper()))] = odd_value(draw)
    elif action == 5:
        holder[key] = draw.choice(([holder[key]], {key if isinstance(key, str) else "name": holder[key]}))
    elif action == 6:
        other, place = draw.choice(places)
        taken = copy.deepcopy(other.get(place) if isinstance(other, dict) else other[place])
        holder[key] = taken
    else:
        for _ in range(draw.choice((1, 3, 100))):
            holder[key] = [holder[key]] if draw.random() < 0.5 else {"name": holder[key]}
    return value


def _other(value: Any, draw: random.Random) -> Any:
    """Something of the same type, or not."""
    if draw.random() < 0.4:
        return odd_value(draw)
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)) and abs(value) < 1e100:
        return draw.choice((-value, value * 10, value * 1e9, str(value), value + 0.5, *NUMBERS))
    if isinstance(value, str):
        return draw.choice((damaged_text(value, draw), draw.choice(WORDS), value + value, value.upper()))
    return odd_value(draw)


def _places(value: Any) -> Any:
    """Every (container, key) in a plain value."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys: Sequence[Any] = ()
        if isinstance(holder, (dict, list)):
            keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            yield holder, key
            if isinstance(holder[key], (dict, list)):
                waiting.append(holder[key])


def damaged_text(text: str, draw: random.Random, most: int = 3) -> str:
    """Signs or lines taken out, doubled, moved or put in."""
    for _ in range(draw.randint(1, most)):
        lines = text.split("\n")
        at = draw.randrange(len(text) + 1)
        action = draw.randrange(7)
        if action == 0:
            text = text[:at] + draw.choice(WORDS) + text[at:]
        elif action == 1:
            text = text[:at] + text[at + draw.randint(1, 5) :]
        elif action == 2:
            text = text[:at]
        elif action == 3:
            row = draw.randrange(len(lines))
            text = "\n".join([*lines[:row], *lines[row : row + 1] * draw.choice((0, 2, 3)), *lines[row + 1 :]])
        elif action == 4:
            draw.shuffle(lines)
            text = "\n".join(lines)
        elif action == 5:
            text = text[:at] + draw.choice("{}[]:,\"'&*!|>%@`#-?\t\n\r\x00\x85\u2028") + text[at:]
        else:
            row = draw.randrange(len(lines))
            lines[row] = " " * draw.randint(1, 8) + lines[row]
            text = "\n".join(lines)
    return text


def damaged_bytes(data: bytes, draw: random.Random, most: int = 4) -> bytes:
    """Bytes flipped, taken out, put in, or the end cut off."""
    for _ in range(draw.randint(1, most)):
        at = draw.randrange(len(data) + 1)
        action = draw.randrange(6)
        if action <= 1 and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([draw.choice((0, 255, 127, 128, draw.randrange(256)))]) + data[at + 1 :]
        elif action == 2:
            data = data[:at]
        elif action == 3:
            data = data[:at] + draw.randbytes(draw.randint(1, 16)) + data[at:]
        elif action == 4:
            data = data[:at] + data[at + draw.randint(1, 64) :]
        else:
            start = min(at, 64)
            data = data[:start] + b"\xff\xff\xff\xff" + data[start + 4 :]
    return data


def encoded(text: str, draw: random.Random) -> bytes:
    """Text as one encoding or another writes it."""
    encoding = draw.choice(("utf-8",) * 8 + ("utf-8-sig", "utf-16", "latin-1", "utf-16-le"))
    return text.encode(encoding, "replace" if encoding == "latin-1" else "surrogatepass")
