"""The benchmark of the thorough audit compares what it says."""

from __future__ import annotations

import pytest
from thorough import lines, measure

from holdfast.audit import ensemble, subject
from holdfast.data import load
from holdfast.models import Embedder


def test_every_attack_takes_more_passes_and_breaks_hardly_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble, "STEPS", 4)
    monkeypatch.setattr(subject, "SQUARE_QUERIES", 10)
    data = load({"name": "glyphs", "characters": 30, "per_class": 4, "size": 16})
    row = measure(Embedder("conv-tiny", dim=8, size=16, canvas=16), data, 8)
    passes = {way: row[way]["passes"] for way in ("ours", "every")}
    assert 2 * passes["ours"]["back"] < passes["every"]["back"]
    assert passes["ours"]["back"] <= row["ours"]["planned"]["back"]
    assert row["ours"]["curve"][0] == row["every"]["curve"][0], "clean"
    assert "faster" in lines(row)
