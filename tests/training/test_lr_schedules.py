from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config import builder
from holdfast.training import lr_schedules as schedules

build = builder(schedules.registry)


@given(st.sampled_from(schedules.registry.names()), st.floats(0, 0.9), st.integers(1, 500))
def test_every_schedule_stays_between_zero_and_one(name: str, warmup: float, total: int) -> None:
    schedule = build(name, warmup=warmup)
    factors = [schedule.factor(step, total) for step in range(total)]
    assert all(0 <= f <= 1 for f in factors)
    rising = max(0, int(warmup * total) - 1)
    assert factors[:rising] == sorted(factors[:rising])


def test_milestones_anywhere_inside_training_are_taken() -> None:
    step = build("step", at=[0.01, 0.99], gamma=0.0)
    assert [step.factor(s, 100) for s in (0, 50, 99)] == [1.0, 0.0, 0.0]
    assert build("step", at=[]).factor(99, 100) == 1.0


def test_values() -> None:
    step = build("step", at=[0.5, 0.75], gamma=0.1)
    assert [step.factor(s, 8) for s in (0, 3, 4, 5, 6)] == pytest.approx([1, 1, 0.1, 0.1, 0.01])
    cosine = build("cosine", floor=0.2)
    assert cosine.factor(49, 100) == pytest.approx(0.6, abs=1e-9)
    assert cosine.factor(99, 100) == pytest.approx(0.2)
    warm = build("constant", warmup=0.5)
    assert [warm.factor(s, 4) for s in range(4)] == pytest.approx([0.5, 1, 1, 1])
