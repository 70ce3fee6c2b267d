"""When memory runs out: whose it is, and what to do."""

from __future__ import annotations

import argparse

GPU = ("out of memory", "ALLOC_FAILED")
"""What torch's errors say, by whichever library they come, where a device has no room left."""

HOST = "DefaultCPUAllocator"
"""What they say where the computer has none; Python's own and numpy's are `MemoryError`."""


def memory_line(error: BaseException, options: argparse.Namespace) -> str | None:
    """One line if the error says that memory ran out, None if it is about something else.

    Args:
        error: what a command ended with.
        options: of the command.
    """
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and HOST in str(error)):
        whose = "the computer's memory"
    elif isinstance(error, RuntimeError) and any(sign in str(error) for sign in GPU):
        whose = "the GPU's memory"
    else:
        return None
    return f"{whose} ran out; {_advice(options)}; what was saved is kept"


def _advice(options: argparse.Namespace) -> str:
    free = "end what else uses it and run the same command again"
    if hasattr(options, "recipe"):
        return f"{free} to go on, or train in another --out with fewer images in a step, such as --set batch.classes=8"
    batch = getattr(options, "batch", 0)
    if batch == 1 or not hasattr(options, "batch"):
        return free
    return f"{free}, or with fewer images in a pass: --batch {(batch or 256) // 2}"
