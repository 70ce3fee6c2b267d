"""NVIDIA's Multi-Process Service: kernels of several processes run on a GPU at the same time, not in turn."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from holdfast import console
from holdfast.errors import reason

CONTROL = "nvidia-cuda-mps-control"
SECONDS = 30
"""To start or to stop in."""


@contextmanager
def shared_gpu() -> Iterator[None]:
    """Let processes that are started in the block share GPUs through the service.

    One that runs already is used and left alone. Where it cannot be started, one line says so and the block runs
    without it.
    """
    control = shutil.which(CONTROL)
    if control is None:
        console.say(f"no {CONTROL} on the path: jobs take turns on the GPU")
        yield
        return
    if _told(control, "get_server_list", os.environ) is None:
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="holdfast-mps-"))
    own = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    environment = {**os.environ, **own}
    problem = _told(control, None, environment)
    try:
        if problem is not None:
            console.say(f"{CONTROL} does not start ({problem}): jobs take turns on the GPU")
            yield
            return
        with variables(own):
            yield
    finally:
        if problem is None:
            _told(control, "quit", environment)
        shutil.rmtree(folder, ignore_errors=True)


def _told(control: str, order: str | None, environment: Mapping[str, str]) -> str | None:
    """Give the service an order, or start it; None where that went well, otherwise why not."""
    words = [control] if order else [control, "-d"]
    try:
        # Not through pipes: the service that is started keeps what it inherits open.
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(
                words,
                input=f"{order}\n" if order else None,
                stdin=None if order else subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=dict(environment),
                timeout=SECONDS,
                text=True,
                check=False,
            )
            said.seek(0)
            text = " ".join(said.read().split())[:200]
    except (OSError, subprocess.TimeoutExpired) as error:
        return reason(error)
    return None if done.returncode == 0 else text or f"exit code {done.returncode}"


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables of this process and of those it starts, while the block runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
