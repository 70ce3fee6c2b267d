"""What the benchmark scripts share: alternating measurements and JSON."""

from __future__ import annotations

import json
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


def write(rows: list[dict[str, Any]], path: Path | None) -> None:
    """Rows as JSON, if a file is asked for."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows, indent=2) + "\n")
