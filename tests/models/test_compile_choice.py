"""`compile: auto` compiles where that saves more time than it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from holdfast.models import Embedder, compile_choice
from holdfast.models.compile_choice import CompileMeter, CompileTimes, choose_compiling, shared_compiling, time_pass

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


def test_few_images_are_timed_however_many_passes_have(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[int] = []
    monkeypatch.setattr(compile_choice, "time_pass", lambda model, batch, bfloat16: timed.append(batch) or 1e-4)
    for batch in (4, 2048):
        choose_compiling("auto", model(), MILLION, batch, True)
    assert timed == [4, compile_choice.PROBED]


def test_graphs_that_were_kept_pay_sooner(card: None) -> None:
    takes = choose_compiling("auto", model(), 0, 4, True).takes
    images = 0.9 * takes / (1e-4 * compile_choice.SAVED)
    assert not choose_compiling("auto", model(), images, 4, True).compiled
    CompileTimes(model(), True).remember("cold", 2 * takes)
    assert choose_compiling("auto", model(), images, 4, True).compiled


def test_several_runs_share_what_compiling_takes(card: None) -> None:
    alone = choose_compiling("auto", model(), 0, 4, True).takes
    with shared_compiling(5), shared_compiling(2):
        tenth = choose_compiling("auto", model(), 0, 4, True).takes
        CompileTimes(model(), True).remember("cold", alone)
        kept = choose_compiling("auto", model(), 0, 4, True).takes
    assert kept < tenth < alone
    assert tenth == pytest.approx(kept + (alone - kept) / 10), "each also takes the graphs from where they are kept"
    assert choose_compiling("auto", model(), 0, 4, True).takes == kept, "what is kept is the same for one run"


def test_a_training_teaches_the_next_what_compiling_takes(card: None) -> None:
    times = CompileTimes(model(), True)
    for first, second in ((41.0, 1.0), (6.0, 1.0), (90.0, 1.0), (1.0, 1.0)):  # cold, warm, in a crowd, nothing to see
        meter = CompileMeter(times)
        for seconds in (first, second, 9.0):
            meter.add(seconds, 1000)
    assert times.known() == pytest.approx({"cold": 40.0, "warm": 5.0})
    found = choose_compiling("auto", model(), MILLION, 4, True)
    assert (found.compiled, found.takes) == (True, pytest.approx(5.0)), "the graphs were kept"
    assert "takes about 5 s and saves 50 s" in str(found)
    assert not CompileTimes(model(), False).known(), "bfloat16 and float32 have graphs of their own"


def test_what_other_trainings_took_does_not_choose(card: None) -> None:
    meter = CompileMeter(CompileTimes(model(), True))
    for seconds in (100.0, 60.0):  # beside others, and waiting for its images
        meter.add(seconds, 1000)
    assert choose_compiling("auto", model(), 10 * MILLION, 4, True).compiled


@pytest.mark.parametrize("content", ["", "[]", '{"cold": "much"}', '{"cold": -1}', '{"cold": NaN}', '{"plain": 1}'])
def test_a_damaged_memory_is_none(card: None, content: str) -> None:
    times = CompileTimes(model(), True)
    times.remember("cold", 1.0)
    assert times._file is not None
    times._file.write_text(content)
    assert times.known() == {}


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
