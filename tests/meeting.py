"""Several processes of holdfast on this machine, started as a launcher starts them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path

WARM = str(Path(__file__).parent / "faults")
"""Where the module is that the process imports from which others are forked."""


def warm_context() -> ForkServerContext:
    """Makes processes that start at once: forked from one that has imported and used everything already."""
    context = multiprocessing.get_context("forkserver")
    # Both before that one starts: the others cannot use its threads, and it must find the module.
    os.environ["OMP_NUM_THREADS"] = "1"
    if WARM not in os.environ.get("PYTHONPATH", ""):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [WARM, os.environ.get("PYTHONPATH")]))
    context.set_forkserver_preload(["fault_warm"])
    return context


def side_by_side(function: Callable[..., None], arguments: tuple[object, ...], world: int) -> None:
    """Call a function of a rank and some arguments in several processes at once; all must end well."""
    context = warm_context()
    started = [context.Process(target=function, args=(rank, *arguments)) for rank in range(world)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * world


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
    """In a process of its own: be one of several."""
    import torch

    os.environ.update(told(rank, world, port))
    torch.set_num_threads(1)


def start(rank: int, world: int, port: int, *arguments: str) -> subprocess.Popen[str]:
    """One process of a launch, without a launcher that would stop it when another dies."""
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
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
