"""Where to compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from holdfast.errors import HoldfastError

KINDS = ("cpu", "cuda", "mps")

_share: ContextVar[float] = ContextVar("share", default=1.0)


def choose_device(name: str | torch.device | None) -> torch.device:
    """The device of a name (`cpu`, `cuda`, `cuda:1`, `mps`); the best there is when left out."""
    if name is None:
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if _available(kind)))
    if str(name).partition(":")[0] not in KINDS:
        raise HoldfastError(f"unknown device '{name}'; valid: {', '.join(KINDS)}")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise HoldfastError(f"unknown device '{name}'; write cpu, cuda, cuda:NUMBER or mps") from error
    if not _available(device.type):
        raise HoldfastError(f"no {device.type} device here; use --device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise HoldfastError(f"no device '{name}' here; the last one is cuda:{torch.cuda.device_count() - 1}")
    return device


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on a device, without waiting for what the device is at."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


@contextmanager
def sharing_memory(share: float) -> Iterator[None]:
    """In the block, this process counts on no more than a share of a GPU's memory; others have the rest."""
    before = _share.set(share)
    try:
        yield
    finally:
        _share.reset(before)


def free_memory(device: torch.device) -> int:
    """Bytes of a GPU that this process may count on: what is free, or what is left of its share."""
    free, whole = torch.cuda.mem_get_info(device)
    return min(free, int(_share.get() * whole) - torch.cuda.memory_reserved(device))


@contextmanager
def within_share(device: torch.device) -> Iterator[None]:
    """In the block, torch gives back what it holds before it takes more than this process' share of a GPU."""
    if device.type != "cuda" or _share.get() == 1:
        yield
        return
    torch.cuda.set_per_process_memory_fraction(_share.get(), device)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)


def seeded_devices(device: torch.device) -> list[int]:
    """The GPUs whose random state `torch.manual_seed` sets: all of them, once CUDA is in use."""
    in_use = device.type == "cuda" or torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return list(range(torch.cuda.device_count())) if in_use else []


@contextmanager
def tiny_as_zero(device: torch.device) -> Iterator[None]:
    """On a CPU, take numbers below 1e-38 for zero while the block runs.

    Filters that have died, and Adam's memory of their gradients, shrink to such numbers in a long training, and a CPU
    computes with them many times slower than with others. A GPU does not.
    """
    if device.type != "cpu" or _tiny_is_zero() or not torch.set_flush_denormal(True):
        yield
        return
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _tiny_is_zero() -> bool:
    return not bool(torch.tensor(1e-30) * torch.tensor(1e-10))


def _available(kind: str) -> bool:
    """Whether this machine has a device of a kind."""
    if kind == "cuda":
        return torch.cuda.is_available()
    return kind == "cpu" or torch.backends.mps.is_available()
