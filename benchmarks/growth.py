"""How cost grows: time and memory against queries, gallery, batch, steps of an attack and number of distributions.

    python benchmarks/growth.py --json growth.json --table growth.md
    python benchmarks/growth.py --device cuda --backbone resnet18 --size 224 --batch 112 --json growth-gpu.json

Time: all values of a curve in turn in one process, medians of the repeats. Memory: the peak of one piece of work with
its model and inputs, on a CPU in a fresh process and beyond what that held after a small warm-up, on a GPU as torch
counts its allocations. A curve is summed up by the power of x that time grows with (the slope of a straight line
through the logarithms; 1 is linear), and by memory as a fixed part and a part per x.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from curves import CURVES, Setting, Work
from timing import medians, processor

from losses import resident
from metrics import fresh_process

FORGET = Path("/proc/self/clear_refs")
HEADS = ("work", "x", "from", "to", "seconds", "time grows with x^", "MiB", "MiB fixed", "KiB per x")
TITLE = """# How cost grows

Written by `benchmarks/growth.py` on {hardware}, {repeats} repeats, {backbone} at {size} px, vectors of 128 dims,
batches of {batch} where the batch does not grow. Time is the power of x that it grows with, 1 being linear;
memory, with model and inputs, is a fixed part and a part per x.

"""


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The power of x that y grows with: least squares on logarithms."""
    return statistics.linear_regression([math.log(value) for value in x], [math.log(value) for value in y]).slope


def times(name: str, setting: Setting, repeats: int) -> dict[int, float]:
    """Seconds at each value of a curve, the values alternating."""
    curve = CURVES[name]
    works: dict[str, Callable[[], object]] = {
        str(value): partial(waited, curve.work(setting, value), setting) for value in curve.values(setting)
    }
    return {int(value): taken for value, taken in medians(works, repeats).items()}


def waited(work: Work, setting: Setting) -> None:
    work()
    if setting.device == "cuda":
        torch.cuda.synchronize()


def memory(name: str, setting: Setting, value: int, threads: int) -> float | None:
    """MiB at the peak of one value of a curve."""
    if setting.device == "cuda":
        return measured(name, setting, value, lambda: torch.cuda.memory_allocated() / 2**20, cuda_peak)
    if not FORGET.exists():  # only Linux lets a process forget its peak
        return None
    with fresh_process() as process:
        return process.submit(grown, name, setting, value, threads).result()


def grown(name: str, setting: Setting, value: int, threads: int) -> float:
    torch.set_num_threads(threads)
    return measured(name, setting, value, lambda: resident("VmRSS"), resident_peak)


def measured(
    name: str, setting: Setting, value: int, held: Callable[[], float], peak: Callable[[Work], float]
) -> float:
    """The peak over what was held before model and inputs were made, what every call leaves behind not counted."""
    curve = CURVES[name]
    curve.work(setting, curve.values(setting)[0])()
    before = held()
    return peak(curve.work(setting, value)) - before


def resident_peak(work: Work) -> float:
    FORGET.write_text("5")  # making the inputs is not the work
    twice(work)
    return resident("VmHWM")


def cuda_peak(work: Work) -> float:
    torch.cuda.reset_peak_memory_stats()
    twice(work)
    return torch.cuda.max_memory_allocated() / 2**20


def twice(work: Work) -> None:
    """An optimiser has its memory from the second step on."""
    work()
    work()


def fit(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a curve comes to."""
    x, seconds = [row["x"] for row in rows], [row["seconds"] for row in rows]
    found: dict[str, Any] = {"curve": name, "time_slope": slope(x, seconds)}
    if all(row["mib"] is not None for row in rows):
        mib = [row["mib"] for row in rows]
        each, fixed = statistics.linear_regression(x, mib)
        found |= {"memory_slope": slope(x, mib), "mib_fixed": fixed, "mib_each": each}
    return found


def cells(fitted: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """One row of the table."""
    curve, first, last = CURVES[fitted["curve"]], rows[0], rows[-1]
    known = [curve.title, curve.along, f"{first['x']:,}", f"{last['x']:,}"]
    known += [f"{first['seconds']:.3f} to {last['seconds']:.3f}", f"{fitted['time_slope']:.2f}"]
    if "mib_each" not in fitted:
        return [*known, "-", "-", "-"]
    memories = f"{first['mib']:.0f} to {last['mib']:.0f}"
    return [*known, memories, f"{fitted['mib_fixed']:.0f}", f"{1024 * fitted['mib_each']:,.1f}"]


def table(fits: list[dict[str, Any]], rows: list[dict[str, Any]]) -> str:
    lines = [cells(fitted, [row for row in rows if row["curve"] == fitted["curve"]]) for fitted in fits]
    return "\n".join("| " + " | ".join(line) + " |" for line in (HEADS, ["---"] * len(HEADS), *lines)) + "\n"


def hardware(setting: Setting, threads: int) -> str:
    """What it ran on."""
    if setting.device == "cuda":
        return torch.cuda.get_device_name()
    return processor(threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CURVES, default=list(CURVES), help="curves to measure")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--backbone", default="conv-small")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=64, help="images in a step whose batch does not grow")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the rows there")
    parser.add_argument("--table", type=Path, help="write the table there")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    # Freed memory goes back to the system at once, in the children that measure memory: a peak is then what was in use.
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"
    setting = Setting(options.device, options.backbone, options.size, options.batch)
    rows: list[dict[str, Any]] = []
    fits: list[dict[str, Any]] = []
    for name in options.only:
        curve, mine = CURVES[name], []
        for value, seconds in times(name, setting, options.repeats).items():
            mib = memory(name, setting, value, options.threads)
            mine.append({"curve": name, "x": curve.amount(value), "value": value, "seconds": seconds, "mib": mib})
            print(f"{name:8} {curve.amount(value):9,} {seconds:9.4f} s {mib or math.nan:9.1f} MiB", flush=True)
        rows += mine
        fits.append(fit(name, mine))
    print("\n" + table(fits, rows))
    labels = {name: {"title": CURVES[name].title, "along": CURVES[name].along} for name in options.only}
    about = {"hardware": hardware(setting, options.threads), "torch": torch.__version__, **asdict(setting)}
    about["repeats"] = options.repeats
    if options.json:
        content = {**about, "curves": labels, "fits": fits, "rows": rows}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    if options.table:
        options.table.write_text(TITLE.format(**about) + table(fits, rows))


if __name__ == "__main__":
    main()
