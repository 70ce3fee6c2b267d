"""`compile: auto` compiles where that saves more time than it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from holdfast.models import Embedder, compile_choice
from holdfast.models.compile_choice import CostMeter, Costs, choose_compiling, shared_compiling, time_pass

MILLION = 1_000_000


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card on which an uncompiled pass takes a tenth of a millisecond per image, and nothing is remembered."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    monkeypatch.setattr(compile_choice, "time_pass", lambda *_: 1e-4)
    monkeypatch.setattr(compile_choice, "_device", lambda _: torch.device("cuda"))


def model() -> Embedder:
    return Embedder("conv-tiny", dim=8, size=16)


@pytest.mark.parametrize("asked", [True, False])
def test_what_was_asked_for_is_done(asked: bool) -> None:
    assert choose_compiling(asked, model(), 0, 4, False).compiled is asked


def test_auto_leaves_a_cpu_alone() -> None:
    assert not choose_compiling("auto", model(), 1e12, 4, False).compiled


def test_long_work_is_compiled_and_short_work_is_not(card: None) -> None:
    short, long = (choose_compiling("auto", model(), images, 4, True) for images in (1000, MILLION))
    assert (short.compiled, long.compiled) == (False, True)
    assert long.saves == pytest.approx(1e-4 * MILLION * compile_choice.SAVED)
    assert short.saves < short.takes


def test_graphs_that_were_kept_pay_sooner(card: None) -> None:
    takes = choose_compiling("auto", model(), 0, 4, True).takes
    images = 0.9 * takes / (1e-4 * compile_choice.SAVED)
    assert not choose_compiling("auto", model(), images, 4, True).compiled
    Costs(model(), True).remember(cold=2 * takes)
    assert choose_compiling("auto", model(), images, 4, True).compiled


def test_several_runs_share_what_compiling_takes(card: None) -> None:
    alone = choose_compiling("auto", model(), 0, 4, True).takes
    with shared_compiling(10):
        tenth = choose_compiling("auto", model(), 0, 4, True).takes
        Costs(model(), True).remember(cold=alone)
        kept = choose_compiling("auto", model(), 0, 4, True).takes
    assert kept < tenth < alone
    assert tenth == pytest.approx(kept + (alone - kept) / 10), "each also takes the graphs from where they are kept"
    assert choose_compiling("auto", model(), 0, 4, True).takes == kept, "what is kept is the same for one run"


def test_a_training_teaches_the_next_what_it_costs(card: None) -> None:
    costs = Costs(model(), True)
    plain, compiled = CostMeter(costs, False), CostMeter(costs, True)
    for meter, lines in ((plain, (3.0, 2.0, 9.0)), (compiled, (41.0, 1.0, 9.0))):
        for seconds in lines:
            meter.add(seconds, 1000)
    assert costs.known() == pytest.approx({"plain": 2e-3, "compiled": 1e-3, "cold": 40.0})
    later = CostMeter(costs, True)
    for seconds in (6.0, 1.0):
        later.add(seconds, 1000)
    found = choose_compiling("auto", model(), 50_000, 4, True)
    assert (found.compiled, found.takes) == (True, pytest.approx(5.0)), "the graphs were kept"
    assert found.saves == pytest.approx(50.0)
    assert "takes about 5 s and saves 50 s" in str(found)
    assert not Costs(model(), False).known(), "bfloat16 and float32 cost differently"


@pytest.mark.parametrize("content", ["", "[]", '{"plain": "much"}', '{"plain": -1}', '{"plain": NaN}'])
def test_a_damaged_memory_is_none(card: None, content: str) -> None:
    costs = Costs(model(), True)
    costs.remember(plain=1.0)
    assert costs._file is not None
    costs._file.write_text(content)
    assert costs.known() == {}


def test_timing_a_pass_leaves_the_model_as_it_is() -> None:
    made = model().train()
    before = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    modes = [part.training for part in made.modules()]
    state = torch.random.get_rng_state()
    assert time_pass(made, 2, False) > 0
    assert [part.training for part in made.modules()] == modes
    assert all(torch.equal(tensor, before[name]) for name, tensor in made.state_dict().items())
    assert all(parameter.grad is None for parameter in made.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)
