"""No planted fake passes an audit; what is true of each is found by an attacker who knows the disguise."""

from __future__ import annotations

import pytest
from zoo_audits import Calibration
from zoo_fakes import FAKES, Fake


def test_the_list_is_long_enough() -> None:
    assert len(FAKES) >= 30
    assert len({fake.kind for fake in FAKES}) >= 10
    assert len({str(fake) for fake in FAKES}) == len(FAKES)


@pytest.mark.slow
@pytest.mark.parametrize("fake", FAKES, ids=str)
def test_every_fake_is_flagged(fake: Fake, calibration: Calibration) -> None:
    row = calibration.fake(fake)
    assert row.clean > row.bare - 10, "a disguise that costs retrieval fools nobody"
    assert row.true < row.claimed, "what is reported holds: no fake"
    assert row.errors, row
