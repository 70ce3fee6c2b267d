"""Noticing that another process is gone, also while this one waits for it deep inside a library."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from torch._C._distributed_c10d import Store, TCPStore

EVERY = 2.0
"""Seconds between two beats."""

SILENCE = 45.0
"""Seconds without a beat after which a process is given up."""

FAREWELL = 1 << 40
"""Added to the count of a process that leaves in good order."""


class Heartbeat:
    """Counts in a store that all processes share, and watches the counts of the others.

    Args:
        store: where the counts are.
        rank: of this process.
        world: how many there are.
        name: of the counts, so that one group does not meet those of the one before.
        lost: told, from a thread, which process is gone; None for the store itself.
        every: seconds between two beats.
        silence: seconds without a beat that mean that a process is gone.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        world: int,
        name: str,
        lost: Callable[[int | None], None],
        every: float = EVERY,
        silence: float = SILENCE,
    ) -> None:
        self._store, self._rank, self._world, self._name, self._lost = store, rank, world, name, lost
        self._every, self._silence = every, silence
        self._stop = threading.Event()
        self.leaving = False
        self._thread = threading.Thread(target=self._watch, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat and to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Fall silent; with `leaving` set, as one whose work is done."""
        self._stop.set()
        self._thread.join(self._every)
        if self.leaving:
            with suppress(RuntimeError):  # the process that holds the store may have left first
                self._store.add(self._key(self._rank), FAREWELL)

    def _watch(self) -> None:
        seen = dict.fromkeys(range(self._world), 0)
        heard = dict.fromkeys(range(self._world), time.monotonic())
        while not self._stop.is_set():
            try:
                self._store.add(self._key(self._rank), 1)
                for other in set(seen) - {self._rank}:
                    count = self._store.add(self._key(other), 0)
                    if count != seen[other]:
                        seen[other], heard[other] = count, time.monotonic()
            except RuntimeError:
                if not self.leaving and not self._stop.is_set():
                    self._lost(None)
                return
            # A process that was itself held up must hear the others before it judges them.
            silent = [r for r in seen if r != self._rank and self._gone(seen[r], heard[r])]
            if silent and not self.leaving:
                self._lost(silent[0])
                return
            self._stop.wait(self._every)

    def _gone(self, count: int, heard: float) -> bool:
        return count < FAREWELL and time.monotonic() - heard > self._silence

    def _key(self, rank: int) -> str:
        return f"holdfast/{self._name}/{rank}"


def leave_at_once(rank: int | None) -> None:
    """End this process: it may be waiting for one that will never answer. What is on disk is whole at any moment."""
    who = "the process that the others meet at" if rank is None else f"process {rank}"
    print(
        f"\nholdfast: {who} of this run is gone; see what it said, mend that, and run the same command again to go on "
        "from the last checkpoint",  # on a line of its own: a progress bar leaves none
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)


@contextmanager
def watched(rank: int, world: int, name: str) -> Iterator[Heartbeat | None]:
    """Watch the other processes for the length of a block, where there is a place to meet."""
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if address is None or port is None:
        yield None
        return
    store = TCPStore(address, int(port), is_master=False, timeout=timedelta(seconds=SILENCE))
    heartbeat = Heartbeat(store, rank, world, name, leave_at_once)
    heartbeat.start()
    try:
        yield heartbeat
    finally:
        heartbeat.stop()
