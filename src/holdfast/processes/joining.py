"""Meeting the other processes that a launcher started, and noticing that one is gone."""

from __future__ import annotations

import dataclasses
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store, TCPStore

from holdfast import console
from holdfast.errors import HoldfastError, TrainingError, reason
from holdfast.processes.group import ALONE, GO_ON, LOST, Processes, use_processes

MEETING = timedelta(minutes=5)
"""How long to wait for the others to arrive."""

PATIENCE = timedelta(hours=12)
"""How long to wait for them later: the main process may be computing metrics; who is gone is noticed by its silence."""

EVERY = 2.0
"""Seconds between two beats."""

SILENCE = 45.0
"""Seconds without a beat after which a process is given up."""

FAREWELL = 1 << 40
"""Added to the count of a process that leaves in good order."""

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
            used = f"port {os.environ.get('MASTER_PORT')} of this machine is in use, perhaps by another run"
            ways = "torchrun --master_port, accelerate launch --main_process_port"
            raise HoldfastError(f"{used}; give the launcher another ({ways})") from error
        raise HoldfastError(f"the processes of this run could not meet ({reason(error)}); start all again") from error
    groups = [host] if fast is host else [host, fast]
    return Processes(state.process_index, state.num_processes, host, fast), groups


@dataclasses.dataclass
class Heartbeat:
    """Counts in a store that all processes share, and watches the counts of the others and the store itself.

    Seconds are counted as beats of this process: one that was itself held up must hear the others before it judges
    them.

    Args:
        store: where the counts are.
        rank: of this process.
        world: how many there are.
        name: of the counts, so that one group does not meet those of the one before.
        lost: told, from a thread, which process is gone; None for the one that holds the store.
        every: seconds between two beats.
        silence: seconds without a beat that mean that a process is gone.
    """

    store: Store
    rank: int
    world: int
    name: str
    lost: Callable[[int | None], None]
    every: float = EVERY
    silence: float = SILENCE

    def __post_init__(self) -> None:
        self._stop, self._stopped = threading.Event(), threading.Event()
        self._rounds = 0
        self.leaving = False
        # Two: a store whose holder hangs never answers, whatever timeout it was given, and holds the first one up.
        self._beating = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._guarding = threading.Thread(target=self._guard, name="heartbeat guard", daemon=True)

    def start(self) -> None:
        """Begin to beat and to watch."""
        self._beating.start()
        self._guarding.start()

    def stop(self) -> None:
        """Fall silent; with `leaving` set, as one whose work is done."""
        self._stop.set()
        self._beating.join(self.every)
        if self.leaving:
            with suppress(RuntimeError):  # the process that holds the store may have left first
                self.store.add(self._key(self.rank), FAREWELL)
        self._stopped.set()

    def _beat(self) -> None:
        others = set(range(self.world)) - {self.rank}
        seen, silent = dict.fromkeys(others, 0), dict.fromkeys(others, 0)
        while not self._stop.is_set():
            try:
                self.store.add(self._key(self.rank), 1)
                for other in others:
                    count = self.store.add(self._key(other), 0)
                    silent[other] = 0 if count != seen[other] or count >= FAREWELL else silent[other] + 1
                    seen[other] = count
            except RuntimeError:
                if not self.leaving and not self._stop.is_set():
                    self._miss(None)
                return
            gone = [other for other in others if self._too_long(silent[other])]
            if gone:
                self._miss(gone[0])
                return
            self._rounds += 1
            self._stop.wait(self.every)

    def _guard(self) -> None:
        """Miss the store when no round ends."""
        seen = silent = 0
        while not self._stopped.wait(self.every):
            silent = 0 if self._rounds != seen else silent + 1
            seen = self._rounds
            if self._too_long(silent):
                self._miss(None)
                return

    def _too_long(self, beats: int) -> bool:
        return beats * self.every > self.silence

    def _miss(self, rank: int | None) -> None:
        self._stopped.set()  # it is told once
        self.lost(rank)

    def _key(self, rank: int) -> str:
        return f"holdfast/{self.name}/{rank}"


def leave_at_once(rank: int | None) -> None:
    """End this process: it may be waiting for one that will never answer. What is on disk is whole at any moment."""
    who = "the process that the others meet at" if rank is None else f"process {rank}"
    # On a line of its own: a progress bar leaves none.
    print(f"\nholdfast: {who} of this run is gone or does not answer; {GO_ON}", file=sys.stderr, flush=True)
    os._exit(1)


@contextmanager
def watched(rank: int, world: int, name: str) -> Iterator[Heartbeat]:
    """Watch the other processes for the length of a block, at the place where they met."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        store = TCPStore(address, port, is_master=False, timeout=timedelta(seconds=SILENCE))
    except RuntimeError as error:
        raise TrainingError(LOST) from error
    heartbeat = Heartbeat(store, rank, world, name, leave_at_once)
    heartbeat.start()
    try:
        yield heartbeat
    finally:
        heartbeat.stop()
