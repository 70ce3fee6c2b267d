"""Hand damaged and hostile files to everything in holdfast that reads what others wrote: `make fuzz`.

    python tools/fuzz.py                              the whole campaign
    python tools/fuzz.py --seconds 20                 as much of it as fits
    python tools/fuzz.py --target csv --count 5000    one target
    python tools/fuzz.py --target csv --seed 1234     one input again, with its traceback

Input N of a target is made from the target's name and N alone. A failure prints the command that repeats it; put its
number into `tests/fuzz/seeds.json`, where the tests try it from then on.
"""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "fuzz"), str(TESTS / "report")]

from fuzzing import Target, judge  # noqa: E402
from targets import TARGETS  # noqa: E402

CAMPAIGN = 100_000
"""Inputs of the whole campaign."""


@dataclasses.dataclass
class Tally:
    """What came of the inputs of one target."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    seconds: float = 0.0
    slowest: float = 0.0
    failures: list[int] = dataclasses.field(default_factory=list)


def main() -> int:
    """1 where an input failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", choices=[target.name for target in TARGETS], help="only this one")
    parser.add_argument("--seed", type=int, help="one input of --target again")
    parser.add_argument("--start", type=int, default=0, help="number of the first input (default 0)")
    parser.add_argument("--count", type=int, default=CAMPAIGN, help="inputs in all (default %(default)s)")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    chosen = [target for target in TARGETS if options.target in (None, target.name)]
    with tempfile.TemporaryDirectory(prefix="holdfast-fuzz-") as scratch:
        folder = Path(scratch) / "input"
        if options.seed is not None:
            return _again(chosen[0], options.seed, folder)
        started = time.monotonic()
        tallies = {target.name: Tally() for target in chosen}
        for target, count in _portions(chosen, options.count):
            tally = tallies[target.name]
            begin = options.start + sum(tally.counts.values())
            for seed in range(begin, begin + count):
                _one(target, seed, folder, tally)
            if options.seconds is not None and time.monotonic() - started > options.seconds:
                break
    print(table(tallies))
    if options.json:
        options.json.write_text(json.dumps({name: vars(tally) for name, tally in tallies.items()}, indent=1))
    return int(any(tally.failures for tally in tallies.values()))


def table(tallies: dict[str, Tally]) -> str:
    """Figures per target as a Markdown table."""
    lines = [
        "| target | inputs | accepted | refused in one line | failed | slowest input |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    whole = Tally()
    for name, tally in tallies.items():
        lines.append(_row(name, tally))
        whole.counts += tally.counts
        whole.slowest = max(whole.slowest, tally.slowest)
    return "\n".join([*lines, _row("**all**", whole)])


def _row(name: str, tally: Tally) -> str:
    counts = [sum(tally.counts.values()), *(tally.counts[key] for key in ("accepted", "refused", "failed"))]
    return f"| {name} | {' | '.join(f'{count:,}' for count in counts)} | {tally.slowest:.2f} s |"


def _portions(chosen: list[Target], count: int) -> list[tuple[Target, int]]:
    """Rounds in which every target has its turn, so that a campaign cut short has tried them all."""
    shares = sum(target.share for target in chosen)
    rounds = max(1, count // 1000)
    wanted = {target.name: max(1, round(count * target.share / shares)) for target in chosen}
    portions = []
    for number in range(rounds):
        for target in chosen:
            done, due = (wanted[target.name] * n // rounds for n in (number, number + 1))
            if due > done:
                portions.append((target, due - done))
    return portions


def _one(target: Target, seed: int, folder: Path, tally: Tally) -> None:
    # What hangs inside a library's C code cannot be interrupted: show where, and stop.
    faulthandler.dump_traceback_later(4 * target.seconds, exit=True)
    start = time.monotonic()
    verdict = judge(target, seed, folder)
    faulthandler.cancel_dump_traceback_later()
    spent = time.monotonic() - start
    tally.counts[verdict.outcome] += 1
    tally.seconds += spent
    tally.slowest = max(tally.slowest, spent)
    if verdict.outcome == "failed":
        tally.failures.append(seed)
        last = verdict.detail.strip().splitlines()[-1]
        print(f"FAILED  python tools/fuzz.py --target {target.name} --seed {seed}\n        {last[:300]}", flush=True)


def _again(target: Target, seed: int, folder: Path) -> int:
    verdict = judge(target, seed, folder)
    print(f"{verdict.outcome}: {verdict.detail}" if verdict.detail else verdict.outcome)
    return int(verdict.outcome == "failed")


if __name__ == "__main__":
    sys.exit(main())
