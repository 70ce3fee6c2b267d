"""MATLAB files as far as lists of images need them: text, numbers, cells and structures, every length checked.

scipy reads such files in compiled code that believes what they say; a damaged one ends the whole process.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Collection
from typing import Any

import numpy as np

LARGEST = 2**28
"""Bytes of a variable, unpacked."""

DEEPEST = 8
"""Arrays within arrays."""

_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_LETTERS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_MATRIX, _PACKED = 14, 15
_CELL, _STRUCTURE, _TEXT, _NUMERIC = 1, 2, 4, range(6, 16)
_SUFFIX = {"<": "-le", ">": "-be"}


def read_matlab(content: bytes, wanted: Collection[str]) -> dict[str, Any]:
    """The variables of a file of level 5 (MATLAB's `-v6` and `-v7`); `ValueError` for anything else.

    Text becomes `str`, numbers a list, a cell array a list of what its cells hold, a structure array a list of `dict`.

    Args:
        content: of the file.
        wanted: fields of structures to read; others are skipped.
    """
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise ValueError("no MATLAB file of level 5")
    found, data, at = {}, memoryview(content), 128
    while at < len(data):
        kind, payload, at = _element(data, at, order)
        if kind == _PACKED:
            kind, payload, _ = _element(memoryview(_unpacked(payload)), 0, order)
        if kind != _MATRIX:
            raise ValueError(f"an element of kind {kind} where a variable is expected")
        name, value = _array(payload, order, wanted, DEEPEST)
        found[name] = value
    return found


def _unpacked(data: memoryview) -> bytes:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data, LARGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not stream.eof:
        raise ValueError(f"a variable is cut off, or takes more than {LARGEST / 1e6:,.0f} MB")
    return content


def _element(data: memoryview, at: int, order: str) -> tuple[int, memoryview, int]:
    """Kind and content of the element at a place, and the place of the next one."""
    if at + 8 > len(data):
        raise ValueError("it is cut off")
    kind, size = struct.unpack_from(f"{order}II", data, at)
    if kind >> 16:  # up to four bytes stand within the tag itself
        kind, size, start, following = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        if size > 4:
            raise ValueError("a short element is too long")
    else:
        start = at + 8
        following = start + size + (-size % 8 if kind != _PACKED else 0)
    if start + size > len(data):
        raise ValueError("it is cut off")
    return kind, data[start : start + size], min(following, len(data))


def _array(data: memoryview, order: str, wanted: Collection[str], depth: int) -> tuple[str, Any]:
    """Name and value of an array."""
    if not len(data):
        return "", []
    if depth == 0:
        raise ValueError("arrays are nested too deep")
    _, flags, at = _element(data, 0, order)
    kind, axes, at = _element(data, at, order)
    _, title, at = _element(data, at, order)
    if len(flags) != 8 or kind not in (5, 6):
        raise ValueError("an array without its head")
    sort = struct.unpack(f"{order}I", flags[:4])[0] & 0xFF
    count = math.prod(_numbers(kind, axes, order))
    name = bytes(title).decode("latin-1")
    if sort == _TEXT:
        kind, payload, _ = _element(data, at, order)
        return name, _text(kind, payload, order)
    if sort in _NUMERIC:
        kind, payload, _ = _element(data, at, order)
        numbers = _numbers(kind, payload, order)
        if len(numbers) != count:
            raise ValueError(f"{len(numbers)} numbers where {count} are announced")
        return name, numbers
    if sort not in (_CELL, _STRUCTURE):
        raise ValueError(f"an array of class {sort}, which no list has")
    fields = [""]
    if sort == _STRUCTURE:
        fields, at = _fields(data, at, order)
    if not 0 <= count * len(fields) <= (len(data) - at) // 8:
        raise ValueError(f"{count} entries are announced, more than it holds")
    rows = []
    for _ in range(count):
        row = {}
        for field in fields:
            kind, payload, at = _element(data, at, order)
            if kind != _MATRIX:
                raise ValueError(f"an element of kind {kind} where an array is expected")
            if sort == _CELL or field in wanted:
                row[field] = _array(payload, order, wanted, depth - 1)[1]
        rows.append(row)
    return name, rows if sort == _STRUCTURE else [row[""] for row in rows]


def _fields(data: memoryview, at: int, order: str) -> tuple[list[str], int]:
    """Names of a structure's fields, each padded to the same length, and where its content begins."""
    kind, payload, at = _element(data, at, order)
    length = _numbers(kind, payload, order)
    _, names, at = _element(data, at, order)
    if len(length) != 1 or not 0 < length[0] <= 64 or len(names) % length[0] or not len(names):
        raise ValueError("a structure without names of its fields")
    words = [bytes(names[i : i + length[0]]) for i in range(0, len(names), length[0])]
    return [word.partition(b"\0")[0].decode("latin-1") for word in words], at


def _numbers(kind: int, payload: memoryview, order: str) -> list[Any]:
    if kind not in _NUMBERS:
        raise ValueError(f"numbers of kind {kind}")
    values: list[Any] = np.frombuffer(payload, order + _NUMBERS[kind]).tolist()
    return values


def _text(kind: int, payload: memoryview, order: str) -> str:
    if kind not in _LETTERS:
        raise ValueError(f"letters of kind {kind}")
    encoding = _LETTERS[kind]
    return bytes(payload).decode(encoding + _SUFFIX[order] if encoding in ("utf-16", "utf-32") else encoding)
