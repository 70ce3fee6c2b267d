"""What the growth benchmark measures is what it says, and its summary is right where the answer is known."""

from __future__ import annotations

import pytest
from curves import CURVES, Setting
from growth import fit, slope, table
from hypothesis import given
from hypothesis import strategies as st
from steps import TrainingStep

TINY = Setting(device="cpu", backbone="conv-tiny", size=16, batch=8)


@given(power=st.floats(-2, 3), factor=st.floats(1e-4, 1e4))
def test_slope_is_the_power(power: float, factor: float) -> None:
    x = [2.0, 3.0, 5.0, 80.0]
    assert slope(x, [factor * value**power for value in x]) == pytest.approx(power, abs=1e-9)


def rows(fixed: float | None, each: float) -> list[dict[str, float | str | None]]:
    memory = [None if fixed is None else fixed + each * x for x in (1, 2, 4)]
    return [{"curve": "batch", "x": x, "seconds": 3.0 * x, "mib": m} for x, m in zip((1, 2, 4), memory, strict=True)]


def test_memory_has_a_fixed_part_and_a_part_per_x() -> None:
    found = fit("batch", rows(fixed=40.0, each=0.5))
    assert found["time_slope"] == pytest.approx(1)
    assert (found["mib_fixed"], found["mib_each"]) == pytest.approx((40, 0.5))
    assert "| 3.000 to 12.000 | 1.00 | 40 to 42 | 40 | 512.0 |" in table([found], rows(fixed=40.0, each=0.5))


def test_a_system_that_cannot_tell_memory_still_has_times() -> None:
    found = fit("batch", rows(fixed=None, each=0.0))
    assert "memory_slope" not in found
    assert "| 3.000 to 12.000 | 1.00 | - | - | - |" in table([found], rows(fixed=None, each=0.0))


@pytest.mark.parametrize(("name", "value"), [("eta", 1), ("eta", 3), ("sets", 1), ("sets", 3)])
def test_x_is_the_passes_that_a_step_makes(name: str, value: int) -> None:
    step = CURVES[name].work(TINY, value)
    assert isinstance(step, TrainingStep)
    step()
    assert step.passes == CURVES[name].amount(value)


@pytest.mark.parametrize("name", CURVES)
def test_values_grow(name: str) -> None:
    values = CURVES[name].values(TINY)
    assert values == sorted(set(values))
    assert len(values) > 2
