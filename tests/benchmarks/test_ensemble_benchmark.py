"""The benchmark of the ensemble compares what it says."""

from __future__ import annotations

import pytest
from ensemble import EPS, line, measure

from holdfast.audit import ensemble as audit_ensemble
from holdfast.audit import ers
from holdfast.data import load
from holdfast.models import Embedder


def test_a_row_per_eps_on_the_same_images(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (audit_ensemble, ers):
        monkeypatch.setattr(module, "STEPS", 2)
    data = load({"name": "glyphs", "characters": 30, "per_class": 4, "size": 16})
    rows = measure(Embedder("conv-tiny", dim=8, size=16, canvas=16), data, 8)
    assert [row["eps"] for row in rows] == list(EPS)
    for row in rows:
        assert 0 <= row["robust R@1"] <= row["R@1"]
        assert 0 <= row["thorough"] <= row["R@1"]
        assert row["ers_seconds"] > 0
        assert "ensemble" in line(row)
