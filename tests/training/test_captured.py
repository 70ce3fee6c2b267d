"""A recorded step that is run again is the step itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from regime_recipes import HM, MDPROP, TRIDE
from torch import Generator

from holdfast import console
from holdfast.losses import Triplet
from holdfast.regimes import StepContext, StepResult
from holdfast.regimes.standard import Standard
from holdfast.training import captured
from holdfast.training.captured import WARM, CapturedStep, Recorder, Work, obstacle
from holdfast.training.optimizers import set_rates
from holdfast.training.recipe import load_recipe
from holdfast.training.session import Session, build_session
from holdfast.training.step import load_batch

FREE_HM = {"regime": {"name": "free-hm", "replays": 2}, "loss": {"name": "triplet", "miner": "softhard"}}
S2SD = {"loss": {"name": "s2sd", "dims": [8], "feature_after": WARM + 2}}
STEPS = 2 * WARM + 4


class Counting(Recorder):
    """Counts what is recorded and run again."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def record(self, work: Work, generators: Sequence[Generator]) -> Work:
        self.recorded += 1

        def replay() -> Any:
            self.replayed += 1
            return work()

        return replay


def learnt(
    recipe: dict[str, Any], recorder: Recorder | None
) -> tuple[Session, list[float], list[tuple[int, int, int]]]:
    """A session after some steps, with the loss and the passes of each."""
    session = build_session(load_recipe(recipe), "cpu")
    context = StepContext(session.model, session.criterion, session.accelerator, 0, total=STEPS)
    learn = CapturedStep(session, context, recorder)
    losses, passes = [], []
    for step in range(STEPS):
        set_rates(session.optimizer, 1 / (1 + step))
        session.batches.set_epoch(step)
        context.start(step)
        batch = load_batch(session, context, next(iter(session.batches)))
        update = (step + 1) % session.recipe.accumulate == 0
        losses.append(float(learn(batch, update).loss))
        passes.append((context.passes, context.passed, context.looks))
    return session, losses, passes


def assert_same(one: Session, other: Session) -> None:
    mine, theirs = one.checkpoint(0), other.checkpoint(0)
    assert mine.state == theirs.state
    assert mine.tensors.keys() == theirs.tensors.keys()
    assert all(torch.equal(mine.tensors[name], theirs.tensors[name]) for name in mine.tensors)


def assert_replayed(recipe: dict[str, Any]) -> None:
    """Steps that are recorded and replayed learn what queued ones do."""
    recorder = Counting()
    session, losses, passes = learnt(recipe, recorder)
    expected, wanted, counted = learnt(recipe, None)
    assert recorder.recorded >= 1
    assert recorder.replayed >= 2
    assert losses == wanted
    assert passes == counted
    assert_same(session, expected)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="margin, draws of a miner"),
        pytest.param({"accumulate": 2, "ema": 0.9, "clip": 1.0}, id="accumulate"),
        pytest.param({"mining_groups": 2}, id="mining groups"),
        pytest.param(MDPROP, id="BatchNorm sets, random starts"),
        pytest.param(HM | {"regime": HM["regime"] | {"destination": 0.9}}, id="hm"),
        pytest.param(FREE_HM, id="replays"),
        pytest.param(S2SD, id="a term that starts later"),
        pytest.param(TRIDE, id="turns, a share of training"),
        pytest.param({**TRIDE, "accumulate": 2}, id="turns, accumulate"),
    ],
)
def test_replayed_steps_are_the_steps(tiny: dict[str, Any], changes: dict[str, Any]) -> None:
    assert_replayed(tiny | changes)


def test_a_last_update_of_fewer_batches_is_captured_apart(tiny: dict[str, Any]) -> None:
    """By how many a gradient is divided is part of a graph."""
    session = build_session(load_recipe({**tiny, "accumulate": 3}), "cpu")
    context = StepContext(session.model, session.criterion, session.accelerator, 0, total=STEPS)
    learn = CapturedStep(session, context, Counting())
    batch = load_batch(session, context, next(iter(session.batches)))
    usual = learn._kind(batch, True)
    assert learn._kind(batch, True) == usual
    session.accelerator.gradient_accumulation_steps = 2
    assert learn._kind(batch, True) != usual


def test_an_attack_that_stops_early_is_not_captured(tiny: dict[str, Any]) -> None:
    tiny |= HM | {"regime": HM["regime"] | {"destination": -2.0}}  # every triplet is hard enough as it is
    recorder = Counting()
    learnt(tiny, recorder)
    assert recorder.recorded == 0


@pytest.mark.parametrize(
    ("seldom", "recorded"),
    [pytest.param(4, 1, id="seldom"), pytest.param(2, 0, id="as often as not"), pytest.param(1, 0, id="always")],
)
def test_steps_that_seldom_stop_early_are_captured_at_their_full_length(
    tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch, seldom: int, recorded: int
) -> None:
    monkeypatch.setattr(captured, "STOPPING", 4)
    real, taken = captured.one_step, iter(range(STEPS))

    def stopping(session: Session, context: StepContext, *more: Any) -> StepResult:
        result, stops = real(session, context, *more), next(taken) % seldom == 1 % seldom
        context.passes, context.stopped_early = 6 if stops else 9, stops
        return result

    monkeypatch.setattr(captured, "one_step", stopping)
    recorder = Counting()
    _, _, passes = learnt(tiny, recorder)
    assert recorder.recorded == recorded
    assert not recorded or {counted for counted, *_ in passes[5:]} == {9}


class Failing(Counting):
    """A step that cannot be captured."""

    def record(self, work: Work, generators: Sequence[Generator]) -> Work:
        self.recorded += 1
        raise RuntimeError("operation not permitted when stream is capturing")


class Waiting(Counting):
    """A step in which something waits for the device."""

    def warm(self, work: Work, watched: bool) -> Any:
        return work(), "mine.py, line 7, waits for the GPU" if watched else None


@pytest.mark.parametrize(("recorder", "why"), [(Failing(), "not permitted"), (Waiting(), "line 7")])
def test_what_cannot_be_captured_is_queued_and_one_line_says_why(
    recorder: Counting, why: str, tiny: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with console.shown():
        session, losses, _ = learnt(tiny, recorder)
    said = [line for line in capsys.readouterr().err.splitlines() if "CUDA graphs" in line]
    assert len(said) == 1
    assert why in said[0]
    assert recorder.recorded <= 1
    expected, wanted, _ = learnt(tiny, None)
    assert losses == wanted
    assert_same(session, expected)


class OwnRegime(Standard):
    """Somebody's own."""


class OwnLoss(Triplet):
    """Somebody's own."""


class VouchedLoss(OwnLoss):
    """Somebody's own, which does the same in every step."""

    capturable = True


def test_parts_that_may_differ_from_step_to_step_are_named(tiny: dict[str, Any]) -> None:
    session = build_session(load_recipe(tiny), "cpu")
    for group in session.optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"])
    assert obstacle(session) is None
    assert "OwnRegime" in str(obstacle(dataclasses.replace(session, regime=OwnRegime())))
    session.criterion.loss = OwnLoss(miner="random")
    assert "OwnLoss" in str(obstacle(session))
    session.criterion.loss = VouchedLoss(miner="random")
    assert obstacle(session) is None
    session.criterion.loss = Triplet(memory=64)
    assert "memory" in str(obstacle(session))
