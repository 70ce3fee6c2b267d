"""Inject faults into holdfast's commands and say what became of them: `make faults`.

    python tools/faults.py                       everything, at the counts of docs/results/notebook-faults.md
    python tools/faults.py --only kills disks    some of it
    python tools/faults.py --scale 0.25 --seed 7 a quarter of the faults, at other places
    python tools/faults.py --only health --steps 16000

Every place is drawn from the seed. A fault is survived if the same command, once the cause is gone, ends as if nothing
had happened: every weight to the bit, every line of the log. Data is lost if something saved before is gone or other.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "faults"), str(TESTS)]

from fault_commands import kill_audit, kill_embed, kill_index, kill_study, kill_worker, trained  # noqa: E402
from fault_damage import damage_checkpoints  # noqa: E402
from fault_disks import full_disk, read_only  # noqa: E402
from fault_health import Health, long_run  # noqa: E402
from fault_images import bad_images, dying_decoders  # noqa: E402
from fault_kills import kill_training  # noqa: E402
from fault_memory import out_of_memory  # noqa: E402
from fault_outcomes import Outcome, failures, table  # noqa: E402
from fault_processes import clock_jumps, stop_requests, two_commands, two_processes  # noqa: E402
from fault_ranks import dying_ranks, stopped_ranks  # noqa: E402
from fault_runs import REGIMES  # noqa: E402


def main() -> int:
    """Inject, print the table, and fail if a fault was not survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*CAMPAIGNS, "health"], default=list(CAMPAIGNS))
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=16000, help="of the long run")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as place:
        for name in (name for name in CAMPAIGNS if name in options.only):
            folder = Path(place) / name
            folder.mkdir()
            own = CAMPAIGNS[name](folder, random.Random(f"{options.seed} {name}"), options.scale)
            print(f"{name}: {len(own)} injected, {len(failures(own))} failed", file=sys.stderr, flush=True)
            outcomes += own
        if outcomes:
            print(table(outcomes))
        if "health" in options.only:
            folder = Path(place) / "health"
            folder.mkdir()
            print(health_table(long_run(folder, options.steps)))
    for outcome in failures(outcomes):
        print(f"FAILED  {outcome.fault}, {outcome.where}: {outcome.note}", file=sys.stderr)
    return int(bool(failures(outcomes)))


def health_table(health: Health) -> str:
    """What a long run was like, as Markdown."""
    slope, half = health.slope
    wrong = [abs(ratio - 1) for ratio in health.left]
    rows = {
        "steps, seconds": f"{health.steps:,}, {health.seconds:.0f}",
        "memory at a fifth, half and end of the run": ", ".join(
            f"{health.memory[int(share * (len(health.memory) - 1))]:.1f}" for share in (0.2, 0.5, 1.0)
        )
        + " MiB",
        "growth of memory after the first fifth": f"{slope:+.1f} ± {half:.1f} KiB per 1,000 steps (95 %)",
        "processor time per 1,000 steps, in each fifth": ", ".join(f"{pace:.1f}" for pace in health.pace) + " s",
        "metrics.jsonl": f"{health.log:.1f} bytes per step (a line every 10 steps)",
        "standard error without a terminal": f"{health.said:.0f} bytes per minute",
        "time left as shown ÷ as it was, at each tenth": ", ".join(f"{ratio:.2f}" for ratio in health.left),
        "its mean error": f"{100 * sum(wrong) / len(wrong):.0f} %",
    }
    return "\n".join(["| long run | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())])


def kills(folder: Path, draw: random.Random, scale: float) -> list[Outcome]:
    """Trainings of every regime."""
    return [
        outcome
        for regime in REGIMES
        for outcome in kill_training(folder / regime, draw, regime, max(1, round(6 * scale)))
    ]


def commands(folder: Path, draw: random.Random, scale: float) -> list[Outcome]:
    """Everything else that writes."""
    model, count = trained(folder / "model"), max(1, round(6 * scale))
    struck = [
        outcome
        for number, strike in enumerate((kill_audit, kill_index, kill_embed))
        for outcome in strike(folder / str(number), draw, count, model)
    ]
    return [*struck, *kill_study(folder / "study", draw, count), *kill_worker(folder / "worker")]


def disks(folder: Path, draw: random.Random, scale: float) -> list[Outcome]:
    """Full disks and read-only folders."""
    counts = [max(1, round(count * scale)) for count in (8, 4)]
    return [*full_disk(folder / "full", draw, counts[0]), *read_only(folder / "read-only", draw, counts[1])]


def images(folder: Path, draw: random.Random, scale: float) -> list[Outcome]:
    """Images and those who decode them."""
    return [*bad_images(folder / "images", draw), *dying_decoders(folder / "decoders", draw)]


def processes(folder: Path, draw: random.Random, scale: float) -> list[Outcome]:
    """A second process where one works."""
    return [*two_processes(folder / "run"), *two_commands(folder / "commands", trained(folder / "model"))]


CAMPAIGNS: dict[str, Callable[[Path, random.Random, float], list[Outcome]]] = {
    "kills": kills,
    "commands": commands,
    "stops": lambda folder, draw, scale: stop_requests(folder, draw, max(2, round(12 * scale))),
    "disks": disks,
    "damage": lambda folder, draw, scale: damage_checkpoints(folder, draw, max(1, round(8 * scale))),
    "images": images,
    "clocks": lambda folder, draw, scale: clock_jumps(folder, draw),
    "memory": lambda folder, draw, scale: out_of_memory(folder, draw, trained(folder / "model")),
    "processes": processes,
    "ranks": lambda folder, draw, scale: [*dying_ranks(folder / "die", draw), *stopped_ranks(folder / "stop", draw)],
}

if __name__ == "__main__":
    sys.exit(main())
