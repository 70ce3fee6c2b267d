"""Checkpoints: safetensors for tensors, JSON for the rest, a checksum over both; never a pickle.

Each checkpoint is a folder `checkpoint/STEP` that appears by a rename once everything in it is on disk. The two newest
are kept; a damaged one is skipped and the one before it is used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from holdfast.files import new_folder, write_synced

SCHEMA = 1
KEPT = 2


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


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint and forget all but the newest."""
    # Bytes first: a model that cannot be serialised must not leave an empty folder behind.
    tensors = save({k: v.detach().cpu().contiguous() for k, v in checkpoint.tensors.items()})
    body = {"schema": SCHEMA, "step": checkpoint.step, "state": checkpoint.state}
    text = json.dumps(body, sort_keys=True)
    digest = hashlib.sha256(tensors + text.encode()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    with new_folder(folder / f"{checkpoint.step:09d}") as aside:
        write_synced(aside / "tensors.safetensors", tensors)
        write_synced(aside / "state.json", json.dumps({**body, "sha256": digest}, sort_keys=True).encode())
    for older in _steps(folder)[:-KEPT]:
        shutil.rmtree(older, ignore_errors=True)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole, or None."""
    for candidate in reversed(_steps(folder)):
        found = _read(candidate)
        if found is not None:
            return found
    return None


def _steps(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.name.isdigit()) if folder.is_dir() else []


def _read(folder: Path) -> Checkpoint | None:
    try:
        tensors = (folder / "tensors.safetensors").read_bytes()
        written = json.loads((folder / "state.json").read_text("utf-8"))
        digest = written.pop("sha256")
        text = json.dumps(written, sort_keys=True)
        if hashlib.sha256(tensors + text.encode()).hexdigest() != digest or written["schema"] != SCHEMA:
            return None
        return Checkpoint(int(written["step"]), load(tensors), written["state"])
    except (OSError, ValueError, KeyError, AttributeError):
        return None


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
