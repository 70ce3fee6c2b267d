"""Several processes of holdfast on this machine, started as a launcher starts them."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
from pathlib import Path


def free_port() -> int:
    """A port for processes to meet at, seconds from now.

    Below those that systems lend to outgoing connections: such a one could be lent to somebody in the meantime.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


def told(rank: int, world: int, port: int) -> dict[str, str]:
    """What a launcher tells a process."""
    here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port}
    # The host's name need not resolve.
    lo = {"GLOO_SOCKET_IFNAME": "lo"} if Path("/sys/class/net/lo").exists() else {}
    return {**{name: str(value) for name, value in here.items()}, "MASTER_ADDR": "127.0.0.1", **lo}


def meet(rank: int, world: int, port: int) -> None:
    """In a process that was spawned: be one of several."""
    import torch

    os.environ.update(told(rank, world, port))
    torch.set_num_threads(1)


def start(rank: int, world: int, port: int, *arguments: str) -> subprocess.Popen[str]:
    """One process of a launch, without a launcher that would stop it when another dies."""
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", **told(rank, world, port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def together(world: int, *arguments: str) -> list[tuple[int, str, str]]:
    """Exit code, output and messages of every process of a launch."""
    port = free_port()
    started = [start(rank, world, port, *arguments) for rank in range(world)]
    return [ended(process) for process in started]


def ended(process: subprocess.Popen[str], seconds: float = 300) -> tuple[int, str, str]:
    """Exit code, output and messages of a process, once it has ended by itself."""
    try:
        out, messages = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return process.returncode, out, messages
