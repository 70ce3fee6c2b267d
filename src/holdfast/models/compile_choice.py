"""Whether compiling a network earns the time it takes.

An uncompiled pass is timed on the spot, and half of it believed to be saved: what trainings took before says little,
since each waits for other things and a card may be shared. What compiling took is remembered beside the compiled
graphs, for each build of a network and kind of machine. Graphs are kept, so that of several runs of one network the
first alone pays in full: `shared_compiling` says how many are to come.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, TypeAlias

import torch

from holdfast.files import write_json
from holdfast.models.compile_cache import compile_folder, network_key
from holdfast.models.embedder import Embedder
from holdfast.models.modes import in_eval_mode

Compile: TypeAlias = bool | Literal["auto"]
"""`auto`: on a GPU, if it saves more time than it takes."""

SAVED = 1 / 2
"""Fraction of a pass that compiling is believed to save; an H200 saved 0.4 with ResNet-18 and 0.6 with ResNet-50."""
COLD, WARM = 0.7, 0.15
"""Seconds per parameter tensor that compiling is believed to take; an H200's host took 0.4 to 0.7."""
PROBES = 5
"""Passes that are timed, after two that are not."""
PROBED = 128
"""Images of such a pass, at most: uncompiled, each takes far more memory than compiled, and more would say the same."""

_runs: ContextVar[int] = ContextVar("runs", default=1)

Start: TypeAlias = Literal["cold", "warm"]
"""Without kept graphs, or with them."""


@dataclasses.dataclass(frozen=True)
class CompileChoice:
    """What `auto` came to.

    Args:
        compiled: whether to compile.
        saves: seconds that compiled passes save; 0 where it was not asked.
        takes: seconds that compiling takes, or this run's part of them.
    """

    compiled: bool
    saves: float = 0.0
    takes: float = 0.0

    def __str__(self) -> str:
        done = "compiles the network" if self.compiled else "does not compile the network"
        return f"compile: auto {done}: it takes about {self.takes:.0f} s and saves {self.saves:.0f} s"


@contextmanager
def shared_compiling(runs: int) -> Iterator[None]:
    """What is compiled in the block serves so many runs of the same network; each has its part of the time.

    A block within another serves so many runs for each of that one's.
    """
    before = _runs.set(_runs.get() * runs)
    try:
        yield
    finally:
        _runs.reset(before)


class CompileTimes:
    """Seconds that compiling took, of one build of a network on one kind of machine.

    Args:
        model: on its device.
        bfloat16: whether its passes run in it.
    """

    def __init__(self, model: Embedder, bfloat16: bool) -> None:
        folder = compile_folder(model.mean.device)
        name = f"{network_key(model)}-{'bfloat16' if bfloat16 else 'float32'}.json"
        self._file = folder / name if folder else None

    @property
    def start(self) -> Start:
        """Whether the network was compiled before."""
        return "warm" if self.known() else "cold"

    def known(self) -> dict[Start, float]:
        """What is remembered; a damaged file remembers nothing."""
        starts: tuple[Start, ...] = ("cold", "warm")
        try:
            found = json.loads(self._file.read_text()) if self._file else {}
            return {start: float(found[start]) for start in starts if 0 < float(found.get(start, 0)) < math.inf}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def remember(self, start: Start, seconds: float) -> None:
        """The least it took, when nothing else was in its way; a folder that cannot be written forgets it."""
        if self._file is None:
            return
        known = self.known()
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self._file, {**known, start: min(seconds, known.get(start, math.inf))})
        except OSError:
            self._file = None


def choose_compiling(choice: Compile, model: Embedder, images: float, batch: int, bfloat16: bool) -> CompileChoice:
    """Whether to compile.

    Args:
        choice: what the user asked for.
        model: on its device, given back in the modes it has.
        images: that go forward and back, in all passes, as far as it is known.
        batch: images in a pass.
        bfloat16: whether passes run in it.
    """
    device = _device(model)
    if choice != "auto":
        return CompileChoice(choice)
    if device.type != "cuda" or not model.differentiable:
        return CompileChoice(False)
    times = CompileTimes(model, bfloat16)
    tensors = sum(1 for _ in model.parameters())
    takes = times.known().get("warm", WARM * tensors)
    if times.start == "cold":
        takes += max(0.0, COLD * tensors - takes) / _runs.get()
    saves = images * SAVED * time_pass(model, min(batch, PROBED), bfloat16)
    return CompileChoice(saves > takes, saves, takes)


def _device(model: Embedder) -> torch.device:
    return model.mean.device


def time_pass(model: Embedder, batch: int, bfloat16: bool) -> float:
    """Seconds per image of an uncompiled pass forward and back to the pixels."""
    device = model.mean.device
    images = torch.zeros(batch, 3, model.size, model.size, device=device).requires_grad_()
    with in_eval_mode(model):  # nothing is drawn, no statistics are updated
        for number in range(PROBES + 2):
            if number == 2:
                start = time.perf_counter()
            with torch.enable_grad(), torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                vectors = model(images)
            (slope,) = torch.autograd.grad(vectors.float().sum(), images)
            if number in (1, PROBES + 1):
                slope.sum().item()  # waits for the device
        return (time.perf_counter() - start) / PROBES / batch


class CompileMeter:
    """Learns what compiling takes from the first two log lines of a training that does.

    The first has it in its time, the second is how it goes on.

    Args:
        times: where it is remembered.
    """

    def __init__(self, times: CompileTimes) -> None:
        self._times, self._start = times, times.start
        self._lines: list[tuple[float, float]] = []

    def add(self, seconds: float, images: float) -> None:
        """Take note of the time since the last line, and of the images that went forward and back in it."""
        if len(self._lines) == 2 or not images or seconds <= 0:
            return
        self._lines.append((seconds, images))
        if len(self._lines) < 2:
            return
        (first, before), (second, after) = self._lines
        taken = first - before * second / after
        if taken > 0:
            self._times.remember(self._start, taken)
