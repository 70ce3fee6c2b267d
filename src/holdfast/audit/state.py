"""What an interrupted audit has already measured."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.files import write_atomic, write_json
from holdfast.run_files import parse_json

SECONDS = "seconds"
"""Kept with each block, so that a resumed audit still knows how long its attacks took."""


class AuditState:
    """Measurements block by block, one file each, so that a killed audit goes on where it stopped.

    Args:
        folder: where they are kept.
        identity: everything the figures depend on; measurements of another audit are thrown away.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self._folder = folder
        self.resumed = False
        file = folder / "identity.json"
        if file.is_file() and _read_json(file) == identity:
            self.resumed = True
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_json(file, identity)

    def get(self, part: str, block: int, rows: int) -> dict[str, Tensor] | None:
        """A block's measurements, or None if it has not been attacked (or its file is damaged).

        Args:
            part: the attack.
            block: its number.
            rows: images of the block; measurements of more or fewer are damaged.
        """
        file = self._file(part, block)
        try:
            found = load(file.read_bytes()) if file.is_file() else {}
        except (SafetensorError, ValueError, KeyError):  # the latter two: headers with types or sizes that do not exist
            return None
        whole = SECONDS in found and all(t.shape[:1] == (1 if k == SECONDS else rows,) for k, t in found.items())
        return found if whole else None

    def put(self, part: str, block: int, measured: dict[str, Tensor]) -> None:
        """Keep a block's measurements."""
        write_atomic(self._file(part, block), save({k: v.detach().cpu().contiguous() for k, v in measured.items()}))

    def join(self, file: Path, measured: dict[str, dict[str, Tensor]]) -> Path:
        """Write everything that was measured into one file."""
        tensors = {f"{part}:{name}": t.contiguous() for part, arrays in measured.items() for name, t in arrays.items()}
        write_atomic(file, save(tensors))
        return file

    def forget(self) -> None:
        """Remove the blocks; the audit is finished."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, part: str, block: int) -> Path:
        return self._folder / f"{part.replace('/', '_')}-{block:06d}.safetensors"


def read_measurements(file: Path) -> dict[str, dict[str, Tensor]]:
    """What `AuditState.join` wrote: part → name → one row per attacked image."""
    measured: dict[str, dict[str, Tensor]] = {}
    try:
        found = load(file.read_bytes())
    except (SafetensorError, ValueError, KeyError) as error:
        raise HoldfastError(f"{file} holds no measurements of an audit ({error}); run the audit again") from error
    for key, tensor in found.items():
        part, _, name = key.rpartition(":")
        measured.setdefault(part, {})[name] = tensor
    return measured


def joined(blocks: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Blocks of measurements as one."""
    return {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}


def _read_json(file: Path) -> Any:
    try:
        return parse_json(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
