"""metrics.jsonl: one JSON object per line, in step order, without gaps or repeats after a restart."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast.files import write_atomic
from holdfast.regimes import StepResult
from holdfast.run_files import log_lines


class MetricsLog:
    """Appends lines to a run's metrics.jsonl.

    Args:
        file: the log.
        step: of the checkpoint that training goes on from, None for none; later lines are dropped, as they will be
            written again.
    """

    def __init__(self, file: Path, step: int | None) -> None:
        self._file = file
        kept = [] if step is None else [line for line in read_log(file) if line["step"] <= step]
        write_atomic(file, "".join(_line(entry) for entry in kept))

    def write(self, entry: dict[str, Any]) -> None:
        """Append one line; `step` must be among its keys."""
        with self._file.open("a", encoding="utf-8") as handle:
            handle.write(_line(entry))

    def sync(self) -> None:
        """Force it to disk, so that no checkpoint is there whose lines are not."""
        with self._file.open("a", encoding="utf-8") as handle:
            os.fsync(handle.fileno())


class Interval:
    """Means of what steps returned between two log lines, summed on the device so that adding never waits for it.

    Args:
        device: where steps run.
        state: what `state()` was when training stopped between two lines.
    """

    def __init__(self, device: torch.device, state: Mapping[str, Any] | None = None) -> None:
        before = state or {"sums": {}, "steps": 0, "passes": 0, "passed": 0}
        self._device = device
        self._sums: dict[str, Tensor] = {name: torch.tensor(v, device=device) for name, v in before["sums"].items()}
        self._steps: int = before["steps"]
        self._passes: float = before["passes"]
        self._passed: int = before.get("passed", 0)
        self._timed = 0  # since this process began
        self._start = time.perf_counter()
        self.measured = (0.0, 0.0)
        """Seconds of training before the last line, in this process, and the images that went forward and back."""

    def add(self, result: StepResult, passes: float, passed: int) -> None:
        """Take note of one step's result, the passes of its batch forward and back, and the images in all of them."""
        self._passes += passes
        self._passed += passed
        values = {"loss": result.loss, **result.terms, **result.logs}
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, torch.zeros((), device=self._device)) + value.detach()
        self._steps += 1
        self._timed += 1

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The time of the block is not counted as training."""
        start = time.perf_counter()
        yield
        self._start += time.perf_counter() - start

    def state(self) -> dict[str, Any]:
        """What a checkpoint between two lines must hold for the next line to be the same."""
        return {
            "sums": {name: float(total) for name, total in self._sums.items()},
            "steps": self._steps,
            "passes": self._passes,
            "passed": self._passed,
        }

    def close(self, batch: int) -> dict[str, float]:
        """The means since the last call, passes and their images per step, images per second, given images per step."""
        line = {name: float(total) / self._steps for name, total in self._sums.items()}
        line["passes"] = self._passes / self._steps
        line["passed"] = self._passed / self._steps
        now = time.perf_counter()
        self.measured = (now - self._start, line["passed"] * self._timed)
        if now > self._start:  # a clock that went back says nothing
            line["images_per_second"] = round(self._timed * batch / (now - self._start), 1)
        self._sums, self._steps, self._timed, self._passes, self._passed, self._start = {}, 0, 0, 0, 0, now
        return line


def read_log(file: Path) -> list[dict[str, Any]]:
    """All whole lines of a log; a line cut off by a crash, or damaged, is left out."""
    if not file.is_file():
        return []
    entries = log_lines(file.read_text("utf-8", errors="replace"))
    return [entry for entry in entries if isinstance(entry.get("step"), int)]


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False) + "\n"
