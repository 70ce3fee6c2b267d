from __future__ import annotations

import pytest
import torch

from holdfast.devices import choose_device, free_memory, sharing_memory, tiny_as_zero, within_share
from holdfast.errors import HoldfastError


@pytest.mark.parametrize(
    ("cuda", "mps", "best"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu"), (True, False, "cuda")]
)
def test_the_best_there_is(monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, best: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert choose_device(None).type == best


@pytest.mark.parametrize("name", ["gpu", "cuda:zz", "cpu:x"])
def test_names_that_mean_nothing(name: str) -> None:
    with pytest.raises(HoldfastError, match=f"unknown device '{name}'"):
        choose_device(name)


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(HoldfastError, match="no device 'cuda:2' here; the last one is cuda:1"):
        choose_device("cuda:2")


def test_a_process_with_a_share_of_a_gpu_counts_on_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (800, 1000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 100)
    gpu = torch.device("cuda", 0)
    assert free_memory(gpu) == 800
    with sharing_memory(0.3):
        assert free_memory(gpu) == 200, "of 300, 100 are taken"
    assert free_memory(gpu) == 800


def test_torch_holds_no_more_than_a_share_while_others_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[float, torch.device]] = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda part, device: told.append((part, device)))
    gpu = torch.device("cuda", 0)
    with within_share(gpu):
        pass
    with sharing_memory(0.5), within_share(torch.device("cpu")):
        pass
    assert not told, "alone, or on a CPU"
    with sharing_memory(0.5), within_share(gpu):
        assert told == [(0.5, gpu)]
    assert told[1:] == [(1.0, gpu)]


def test_tiny_numbers_are_zero_in_the_block_alone() -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot")
    small = torch.full((2,), 1e-30)
    with tiny_as_zero(torch.device("cpu")):
        with tiny_as_zero(torch.device("cpu")):
            assert (small * 1e-10 == 0).all()
        assert (small * 1e-10 == 0).all(), "the inner block must leave what it found"
    assert (small * 1e-10 > 0).all()
    with tiny_as_zero(torch.device("cuda")):
        assert (small * 1e-10 > 0).all()
