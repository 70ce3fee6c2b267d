from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from holdfast.training import checkpoint
from holdfast.training.checkpoint import (
    BRIEF,
    SHARE,
    Checkpoint,
    Pace,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)


def _checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step, {"w": torch.full((3, 2), float(step))}, {"best": step / 3, "regime": {}})


def test_the_newest_whole_checkpoint_is_used_and_two_are_kept(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "checkpoint") is None
    for step in (5, 10, 15):
        save_checkpoint(tmp_path, _checkpoint(step))
    assert sorted(f.name for f in tmp_path.iterdir()) == ["000000010", "000000015"]
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert (found.step, found.state["best"]) == (15, 5.0)
    assert torch.equal(found.tensors["w"], torch.full((3, 2), 15.0))


@settings(max_examples=60, deadline=None)
@given(file=st.sampled_from(["tensors.safetensors", "state.json"]), cut=st.floats(0, 1), flip=st.booleans())
def test_a_damaged_checkpoint_is_never_loaded(
    tmp_path_factory: pytest.TempPathFactory, file: str, cut: float, flip: bool
) -> None:
    folder = tmp_path_factory.mktemp("run")
    for step in (1, 2):
        save_checkpoint(folder, _checkpoint(step))
    target = folder / "000000002" / file
    data = bytearray(target.read_bytes())
    position = int(cut * (len(data) - 1))
    if flip:
        data[position] ^= 0x41
    else:
        del data[position:]
    target.write_bytes(bytes(data))
    found = load_checkpoint(folder)
    assert found is not None
    assert found.step == 1


def test_a_half_written_folder_is_ignored(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, _checkpoint(1))
    (tmp_path / ".000000002.tmp").mkdir()
    (tmp_path / "000000003").mkdir()
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 1
    save_checkpoint(tmp_path, _checkpoint(2))
    assert not (tmp_path / ".000000002.tmp").exists()


def test_checkpoints_that_take_long_wait_until_they_are_a_small_share(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(checkpoint, "monotonic", lambda: now)
    pace = Pace()
    assert pace.allows()  # the first is written, whatever it will take
    with pace.timed():
        now += 3
    now += 3 / SHARE - 1
    assert not pace.allows()
    now += 1
    assert pace.allows()
    with pace.timed():
        now += BRIEF / 2
    assert pace.allows()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_optimizer_memory_survives_exactly(tmp_path: Path, make: type[torch.optim.Optimizer], fused: bool) -> None:
    """Of weights whose channels lie last, too, as a session lays them out: files have one layout."""
    arguments = {"fused": fused, **({"momentum": 0.9} if make is torch.optim.SGD else {})}

    def run(interrupt: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(4, 3, 3), nn.Flatten(), nn.Linear(12, 2))
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = make(model.parameters(), lr=0.1, **arguments)  # type: ignore[call-arg]
        for step in range(6):
            if interrupt and step == 3:
                save_checkpoint(tmp_path, Checkpoint(step, optimizer_tensors(optimizer), {}))
                found = load_checkpoint(tmp_path)
                assert found is not None
                optimizer = make(model.parameters(), lr=0.1, **arguments)  # type: ignore[call-arg]
                restore_optimizer(optimizer, found.tensors)
                for weight, memory in optimizer.state.items():
                    moments = [each for each in memory.values() if each.shape == weight.shape]
                    assert moments
                    assert all(each.stride() == weight.stride() for each in moments)
            optimizer.zero_grad()
            model(torch.ones(2, 4, 4, 4) * step).square().sum().backward()
            optimizer.step()
        return list(model.parameters())

    for whole, resumed in zip(run(False), run(True), strict=True):
        assert torch.equal(whole, resumed)
