"""MATLAB files, beside scipy's reading of the same."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import loadmat, savemat

from holdfast.data import matlab
from holdfast.data.matlab import read_matlab

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0", max_codepoint=0xFFFF), min_size=1, max_size=8)


def saved(packed: bool, **variables: object) -> bytes:
    out = io.BytesIO()
    savemat(out, variables, do_compression=packed)
    return out.getvalue()


@settings(deadline=None)
@given(
    st.lists(st.tuples(TEXT, st.integers(0, 2**31), st.floats(allow_nan=False)), min_size=1, max_size=4), st.booleans()
)
def test_structures_and_cells_as_scipy_reads_them(rows: list[tuple[str, int, float]], packed: bool) -> None:
    kind = [("path", "O"), ("number", "O"), ("more", "O")]
    names = np.array([path for path, _, _ in rows], dtype=object)
    content = saved(packed, rows=np.array(rows, dtype=kind)[None], names=names[None])
    found = read_matlab(content, wanted=("path", "more"))
    theirs = loadmat(io.BytesIO(content))
    assert found["names"] == [str(name[0]) for name in theirs["names"][0]]
    assert found["rows"] == [
        {"path": str(row["path"][0]), "more": row["more"].ravel().tolist()} for row in theirs["rows"][0]
    ]


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u4", "i8", "f4", "f8"])
def test_numbers(dtype: str) -> None:
    assert read_matlab(saved(False, x=np.array([[1, 2, 3]], dtype)), ())["x"] == [1, 2, 3]


def element(kind: int, payload: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}II", kind, len(payload)) + payload + bytes(-len(payload) % 8)


def array(sort: int, count: int, *parts: bytes, order: str = "<") -> bytes:
    head = element(6, struct.pack(f"{order}II", sort, 0), order)
    head += element(5, struct.pack(f"{order}ii", 1, count), order) + element(1, b"x", order)
    return element(14, head + b"".join(parts), order)


def file(*variables: bytes, order: str = "<") -> bytes:
    return bytes(124) + (b"\x00\x01IM" if order == "<" else b"\x01\x00MI") + b"".join(variables)


@pytest.mark.parametrize("order", ["<", ">"])
def test_text_in_sixteen_bits_as_matlab_writes_it_in_either_order(order: str) -> None:
    letters = "é日".encode("utf-16-le" if order == "<" else "utf-16-be")
    assert read_matlab(file(array(4, 2, element(4, letters, order), order=order), order=order), ()) == {"x": "é日"}


def nested(depth: int) -> bytes:
    inner = array(9, 1, element(9, struct.pack("<d", 1.0)))
    for _ in range(depth):
        inner = array(1, 1, inner)
    return inner


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no MATLAB file"),
        (b"MATLAB 7.3 MAT-file" + bytes(200), "no MATLAB file"),
        (file(b"\x0e\x00"), "cut off"),
        (file(struct.pack("<II", 14, 2**32 - 1)), "cut off"),
        (file(array(1, 2**31 - 1)), "more than it holds"),
        (file(array(1, -5)), "more than it holds"),
        (file(array(9, 4, element(9, struct.pack("<d", 1.0)))), "1 numbers where 4"),
        (file(array(9, 1, element(99, bytes(8)))), "numbers of kind 99"),
        (file(array(4, 1, element(9, bytes(8)))), "letters of kind 9"),
        (file(array(3, 1)), "class 3"),
        (file(array(2, 1, element(5, bytes(4)), element(1, b"a"))), "names of its fields"),
        (file(nested(20)), "nested too deep"),
        (file(element(9, bytes(8))), "where a variable is expected"),
        (file(struct.pack("<I", 5 << 16 | 1) + bytes(4)), "too long"),
        (file(element(15, b"no zlib at all")), "incorrect header"),
    ],
)
def test_what_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_matlab(content, ())


def test_a_variable_that_would_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matlab, "LARGEST", 1000)
    with pytest.raises(ValueError, match="more than"):
        read_matlab(file(struct.pack("<II", 15, len(zlib.compress(bytes(5000)))) + zlib.compress(bytes(5000))), ())
