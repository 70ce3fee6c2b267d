"""Where to compute."""

from __future__ import annotations

import torch

from holdfast.errors import HoldfastError

KINDS = ("cpu", "cuda", "mps")


def choose_device(name: str | torch.device | None) -> torch.device:
    """The device of a name (`cpu`, `cuda`, `cuda:1`, `mps`); the best there is when left out."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if str(name).partition(":")[0] not in KINDS:
        raise HoldfastError(f"unknown device '{name}'; valid: {', '.join(KINDS)}")
    device = torch.device(name)
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there[device.type]:
        raise HoldfastError(f"no {device.type} device here; use --device cpu")
    return device
