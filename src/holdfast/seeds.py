"""Every random draw comes from a generator that is seeded from where in the run it happens.

A generator is a pure function of (seed, purpose), so a resumed step draws the numbers of the uninterrupted run and no
generator state has to be saved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def derive(seed: int, *purpose: int | str) -> int:
    """A seed of its own for each purpose, e.g. `derive(seed, step, "augment")`."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *purpose: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator on a device, seeded for one purpose."""
    return torch.Generator(device).manual_seed(derive(seed, *purpose))


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """Deterministic algorithms on a CPU for the length of a block; on a GPU, where they cost speed, nothing changes."""
    if device.type != "cpu":
        yield
        return
    settings: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    filled = settings.fill_uninitialized_memory
    settings.fill_uninitialized_memory = False  # a debugging aid that costs time
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only_warned)
        settings.fill_uninitialized_memory = filled
