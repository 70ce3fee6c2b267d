"""No planted fake passes an audit; what is true of each is found by an attacker who knows the disguise."""

from __future__ import annotations

import pytest
import torch
from zoo_audits import Calibration, audited
from zoo_fakes import FAKES, Fake
from zoo_oracle import seen

from holdfast.attacks.frozen import frozen
from holdfast.audit import ers
from holdfast.data import ImageTable
from holdfast.models import Embedder

FEW = [
    fake
    for fake in FAKES
    if str(fake) in ("warp: x + 0.02 sin(900 x)", "rounding: 4 levels, leak", "saturation: tanh(1500 z)")
]


def test_the_list_is_long_enough() -> None:
    assert len(FAKES) >= 30
    assert len({fake.kind for fake in FAKES}) >= 10
    assert len({str(fake) for fake in FAKES}) == len(FAKES)


@pytest.mark.parametrize("fake", FEW, ids=str)
def test_a_fake_is_flagged(fake: Fake, model: Embedder, table: ImageTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ers, "STEPS", 8)
    disguised = fake.build({fake.base: model})
    with frozen(disguised), torch.random.fork_rng():
        assert audited(*seen(disguised, table, 20, model.size)).errors


@pytest.mark.slow
@pytest.mark.parametrize("fake", FAKES, ids=str)
def test_every_fake_is_flagged(fake: Fake, calibration: Calibration) -> None:
    row = calibration.fake(fake)
    assert row.bare is not None
    assert row.true is not None
    assert row.clean >= 2 / 3 * row.bare, "a disguise that costs most of retrieval fools nobody"
    assert row.claimed >= row.true + 5, "what is reported holds: no fake"
    assert row.errors, row
