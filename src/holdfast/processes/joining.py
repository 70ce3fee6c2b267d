"""Meeting the other processes that a launcher started."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from holdfast import console
from holdfast.errors import HoldfastError, reason
from holdfast.processes.group import ALONE, Processes, use_processes
from holdfast.processes.heartbeat import watched

MEETING = timedelta(minutes=5)
"""How long to wait for the others to arrive."""

PATIENCE = timedelta(hours=12)
"""How long to wait for them later: the main process may be computing metrics; who is gone is noticed by its silence."""

_meetings = itertools.count()


@contextmanager
def joined(device: torch.device) -> Iterator[Processes]:
    """The processes that `torchrun` or `accelerate launch` started share the work of the block; alone without them.

    Only the main one shows progress.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield ALONE
        return
    if device.index is not None:
        raise HoldfastError(f"with several processes each takes its own GPU; write --device {device.type}, or nothing")
    processes, groups = join(device)
    with watched(processes.rank, processes.world, str(next(_meetings))) as heartbeat:
        quiet = nullcontext() if processes.main else console.shown(False)
        with use_processes(processes), quiet:
            yield processes
        heartbeat.leaving = True  # who arrives first may be gone before the last one looks
        processes.any_of(False)  # wait until everybody is here
    for group in groups:
        dist.destroy_process_group(group)


def starts_first() -> bool:
    """Whether this process is, or will be, the main one: the one that prints."""
    return int(os.environ.get("RANK", "0")) == 0


def join(device: torch.device) -> tuple[Processes, list[Any]]:
    """Meet the other processes; returns them and the groups to give up in the end."""
    from accelerate import PartialState
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)  # an earlier run of this process may have left another
    try:
        state = PartialState(cpu=device.type == "cpu", timeout=MEETING)
        host = dist.new_group(backend="gloo", timeout=PATIENCE)
        fast = host if device.type == "cpu" else dist.new_group(timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        AcceleratorState._reset_state(reset_partial_state=True)  # half made, it would count as whole
        if "EADDRINUSE" in str(error):
            raise HoldfastError(
                f"port {os.environ.get('MASTER_PORT')} of this machine is in use, perhaps by another run; give the "
                "launcher another (torchrun --master_port, accelerate launch --main_process_port)"
            ) from error
        raise HoldfastError(f"the processes of this run could not meet ({reason(error)}); start all again") from error
    groups = [host] if fast is host else [host, fast]
    return Processes(state.process_index, state.num_processes, host, fast), groups
