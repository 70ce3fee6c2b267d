"""What the benchmark scripts share: alternating measurements and JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def medians(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each work, all in turn so that a busy moment touches all alike; the first turn warms up."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats + 1):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def seconds(work: Callable[[], object], repeats: int, warm: int = 2) -> float:
    """Median time of a call, after some that are not timed; a GPU is waited for."""
    import torch  # not every script needs it

    def wait() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    times = []
    for number in range(repeats + warm):
        wait()
        start = time.perf_counter()
        work()
        wait()
        if number >= warm:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def write(rows: list[dict[str, Any]], path: Path | None) -> None:
    """Rows as JSON, if a file is asked for."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows, indent=2) + "\n")


def processor(threads: int) -> str:
    """The CPU that figures come from."""
    names = [line.partition(":")[2] for line in _about_cpu() if line.startswith("model name")]
    name = (names or [platform.machine()])[0].replace("(R)", "").replace("Processor", "")
    vectors = ", AVX-512" if any("avx512f" in line for line in _about_cpu()) else ""
    return f"{os.cpu_count()} CPU cores ({' '.join(name.split())}{vectors}), {threads} threads"


def _about_cpu() -> list[str]:
    """What Linux tells; nothing elsewhere."""
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []
