"""Checkpoints: safetensors for tensors, JSON for the rest, a checksum over both; never a pickle.

Each checkpoint is a folder `checkpoint/STEP` that appears by a rename once everything in it is on disk. The two newest
are kept; a damaged one is skipped and the one before it is used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from holdfast import console
from holdfast.errors import TrainingError
from holdfast.files import new_folder, write_synced
from holdfast.processes import current_processes

SCHEMA = 2
KEPT = 2

SHARE = 0.05
"""Of a run's time that checkpoints may take where nobody says how often to write them."""
BRIEF = 0.2
"""Seconds that nobody waits for."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Everything needed to go on.

    Args:
        step: batches learnt so far.
        tensors: named tensors of model, loss, optimiser and averages.
        state: JSON-serialisable rest.
    """

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


class Pace:
    """How often checkpoints pay: a model that trains an epoch in a second may take two to be written."""

    def __init__(self) -> None:
        self._took, self._written = 0.0, monotonic()

    def allows(self) -> bool:
        """Whether another one now would keep within the share, or is brief."""
        return self._took <= max(BRIEF, SHARE * (monotonic() - self._written))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Around the writing of one."""
        begun = monotonic()
        yield
        self._written = monotonic()
        self._took = self._written - begun


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, and remove older ones but for the one before it."""
    # Bytes first: a model that cannot be serialised must not leave an empty folder behind.
    tensors = save({k: v.detach().cpu().contiguous() for k, v in checkpoint.tensors.items()})
    body = {"schema": SCHEMA, "step": checkpoint.step, "state": checkpoint.state}
    text = json.dumps(body, sort_keys=True)
    digest = hashlib.sha256(tensors + text.encode()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    with new_folder(folder / f"{checkpoint.step:09d}") as aside:
        write_synced(aside / "tensors.safetensors", tensors)
        write_synced(aside / "state.json", json.dumps({**body, "sha256": digest}, sort_keys=True).encode())
    remove_useless(folder, checkpoint.step)


def remove_useless(folder: Path, step: int) -> None:
    """Remove all checkpoints but that of a step and the one before it."""
    steps = _steps(folder)
    now = steps.index(folder / f"{step:09d}")
    # Later ones are damaged, or training would have gone on from them.
    for useless in (*steps[: max(0, now + 1 - KEPT)], *steps[now + 1 :]):
        shutil.rmtree(useless, ignore_errors=True)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint of a folder that is whole, or None where there is none at all."""
    steps = _steps(folder)
    for candidate in reversed(steps):
        found = _read(candidate)
        if found is not None:
            return found
        console.say(f"warning: the checkpoint {candidate} is damaged or of another version, the one before it is taken")
    if any(any(step.iterdir()) for step in steps):
        raise TrainingError(
            f"no checkpoint in {folder} is whole and of this version; put back a copy, or delete it to start anew"
        )
    return None


def broadcast_checkpoint(read: Callable[[], Checkpoint | None]) -> Checkpoint | None:
    """What the main process finds, for all: only its disk need hold the run."""
    processes = current_processes()
    if not processes.several:
        return read()
    found: Checkpoint | None = None

    def look() -> dict[str, Any] | None:
        nonlocal found
        found = read()
        return None if found is None else {"step": found.step, "state": found.state}

    body = processes.tell(look)
    if body is None:
        return None
    tensors = processes.send(save(found.tensors) if found else b"")
    return Checkpoint(body["step"], load(tensors), body["state"])


def _steps(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.name.isdigit() and f.is_dir()) if folder.is_dir() else []


def _read(folder: Path) -> Checkpoint | None:
    try:
        tensors = (folder / "tensors.safetensors").read_bytes()
        written = json.loads((folder / "state.json").read_text("utf-8"))
        digest = written.pop("sha256")
        text = json.dumps(written, sort_keys=True)
        if hashlib.sha256(tensors + text.encode()).hexdigest() != digest or written["schema"] != SCHEMA:
            return None
        return Checkpoint(int(written["step"]), load(tensors), written["state"])
    except (FileNotFoundError, ValueError, KeyError, AttributeError, TypeError, RecursionError, SafetensorError):
        return None
    except OSError as error:  # the disk, not the checkpoint: it may be whole
        raise TrainingError(f"{folder} cannot be read: {error.strerror}; mend that and run again") from error


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's memory as named tensors: `POSITION.KEY`, numbers as 0-dimensional tensors."""
    return {
        f"{position}.{key}": torch.as_tensor(value)
        for position, memory in optimizer.state_dict()["state"].items()
        for key, value in memory.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Give an optimiser of the same shape its memory back."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        position, _, key = name.partition(".")
        state.setdefault(int(position), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, memory in optimizer.state.items():
        for key, value in memory.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:  # in its layout: fused updates need that
                memory[key] = torch.empty_like(parameter, dtype=value.dtype, device=value.device).copy_(value)
