"""Long-run health: memory, logs and the time left, over many thousands of steps with evaluations and checkpoints."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

from fault_children import Child
from fault_runs import small, training

EVERY = 100
"""Steps between two looks."""


@dataclasses.dataclass(frozen=True)
class Health:
    """What a long run was like.

    Args:
        steps: how many.
        seconds: how long.
        memory: MiB resident, at each look.
        slope: KiB that memory grows by per thousand steps, and half the width of its 95 % interval.
        log: bytes of metrics.jsonl per step.
        said: bytes on standard error per minute.
        left: time left as shown over the time that was left, at each tenth of the run.
        pace: seconds of the processor per thousand steps, in each fifth of the run.
    """

    steps: int
    seconds: float
    memory: list[float]
    slope: tuple[float, float]
    log: float
    said: float
    left: list[float]
    pace: list[float]


def long_run(folder: Path, steps: int) -> Health:
    """Train for so many steps, an evaluation and two checkpoints every hundred of them."""
    recipe = small(log_every=10, checkpoint_every=50, ema=None)
    epoch = 5  # 24 training classes, of which a batch takes four
    recipe |= {"epochs": max(1, steps // epoch), "evaluate_every": 20}
    file = folder / "looks.jsonl"
    child = Child(training(recipe, folder), folder, partial(look_on, str(file)))
    while child.runs:
        time.sleep(0.5)
    ended = child.ended()
    assert ended.code == 0, ended.said
    looks = [json.loads(line) for line in file.read_text().splitlines()]
    last = looks[-1]
    shown = [look for look in looks if look["left"] is not None and look["step"] < last["step"]]
    tenths = [min(shown, key=lambda look: abs(look["step"] - last["step"] * n / 10)) for n in range(1, 10)]
    steady = looks[len(looks) // 5 :]  # allocators and caches fill up in the beginning
    fifths = [looks[n * (len(looks) - 1) // 5] for n in range(6)]
    return Health(
        steps=last["step"],
        seconds=last["time"] - looks[0]["time"],
        memory=[look["rss"] / 2**20 for look in looks],
        slope=slope([look["step"] / 1000 for look in steady], [look["rss"] / 2**10 for look in steady]),
        log=(folder / "run" / "metrics.jsonl").stat().st_size / last["step"],
        said=len(ended.said) / (ended.seconds / 60),
        left=[look["left"] / max(0.5, last["time"] - look["time"]) for look in tenths],
        pace=[1000 * (b["cpu"] - a["cpu"]) / (b["step"] - a["step"]) for a, b in itertools.pairwise(fifths)],
    )


def slope(x: list[float], y: list[float], blocks: int = 10) -> tuple[float, float]:
    """Least-squares slope and half its 95 % interval, over means of blocks: neighbouring looks are not independent."""
    size = len(x) // blocks
    means = [[statistics.fmean(v[n * size : (n + 1) * size]) for n in range(blocks)] for v in (x, y)]
    fit = statistics.linear_regression(*means)
    rest = [b - fit.slope * a - fit.intercept for a, b in zip(*means, strict=True)]
    spread = sum((a - statistics.fmean(means[0])) ** 2 for a in means[0])
    error = math.sqrt(sum(r * r for r in rest) / (blocks - 2) / spread)
    return fit.slope, 2.306 * error  # Student's t with 8 degrees of freedom


def look_on(file: str) -> None:
    """In a child: write down memory, clock and time left every so many steps."""
    import psutil

    from holdfast import console
    from holdfast.training import captured

    real_step, real_bar, process = captured.one_step, console.bar, psutil.Process()
    bars: list[Any] = []
    count = 0

    def bar(*arguments: Any, **settings: Any) -> Any:
        made = real_bar(*arguments, **settings)
        if not bars:  # the training's own; every evaluation has another, which must not be kept
            bars.append(made)
        return made

    def step(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count % EVERY == 0 or count == 1:
            clocks = {"time": time.monotonic(), "cpu": time.process_time()}
            look = {"step": count, "rss": process.memory_info().rss, "left": _left(bars[0]), **clocks}
            with Path(file).open("a") as handle:
                handle.write(json.dumps(look) + "\n")
        return real_step(*arguments)

    console.bar = bar
    captured.one_step = step


def _left(bar: Any) -> float | None:
    """Seconds left, as the bar shows them."""
    shown = str(bar).rpartition("[")[2].partition(" left]")[0]
    if "?" in shown or not shown:
        return None
    return float(sum(int(part) * 60**n for n, part in enumerate(reversed(shown.split(":")))))
