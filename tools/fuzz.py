"""Hand damaged and hostile files to everything in holdfast that reads what others wrote: `make fuzz`.

    python tools/fuzz.py                              the whole campaign
    python tools/fuzz.py --seconds 20                 as much of it as fits
    python tools/fuzz.py --target csv --count 5000    one target
    python tools/fuzz.py --target csv --seed 1234     one input again, with its traceback
    python tools/fuzz.py --piece 3/40 --json 3.json   the third of forty parts of the campaign
    python tools/fuzz.py --add 1.json 2.json 3.json   the figures of several parts in one table

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
from collections.abc import Iterator
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
    parser.add_argument("--piece", type=_piece, default=(1, 1), metavar="I/N", help="only the I-th of N equal parts")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--add", type=Path, nargs="+", metavar="FILE", help="run nothing; add up files of --json")
    options = parser.parse_args()
    if options.add:
        tallies = added(options.add)
        print(table(tallies))
        return int(any(tally.failures for tally in tallies.values()))
    chosen = [target for target in TARGETS if options.target in (None, target.name)]
    with tempfile.TemporaryDirectory(prefix="holdfast-fuzz-") as scratch:
        folder = Path(scratch) / "input"
        if options.seed is not None:
            return _again(chosen[0], options.seed, folder)
        started = time.monotonic()
        tallies = {target.name: Tally() for target in chosen}
        for target, numbers in _portions(chosen, options.count, *options.piece):
            for number in numbers:
                _one(target, options.start + number, folder, tallies[target.name])
            if options.seconds is not None and time.monotonic() - started > options.seconds:
                break
    print(table(tallies))
    if options.json:
        options.json.write_text(json.dumps({name: vars(tally) for name, tally in tallies.items()}, indent=1))
    return int(any(tally.failures for tally in tallies.values()))


def added(files: list[Path]) -> dict[str, Tally]:
    """The figures of several parts together, in the order of the targets."""
    tallies: dict[str, Tally] = {}
    for file in files:
        for name, part in json.loads(file.read_text("utf-8")).items():
            tally = tallies.setdefault(name, Tally())
            tally.counts += Counter(part["counts"])
            tally.seconds += part["seconds"]
            tally.slowest = max(tally.slowest, part["slowest"])
            tally.failures += part["failures"]
    return tallies


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


def _portions(chosen: list[Target], count: int, part: int, parts: int) -> Iterator[tuple[Target, range]]:
    """Numbers of inputs, in rounds in which every target has its turn: a campaign cut short has tried them all.

    Args:
        chosen: the targets.
        count: inputs of the whole campaign.
        part: which part of it, counted from 1.
        parts: how many there are; each input is in one of them.
    """
    shares = sum(target.share for target in chosen)
    rounds = max(parts, count // 1000)
    for number in range(rounds * (part - 1) // parts, rounds * part // parts):
        for target in chosen:
            wanted = -(-count * target.share // shares)  # rounded up: not one fewer than asked for
            yield target, range(wanted * number // rounds, wanted * (number + 1) // rounds)


def _piece(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError("expected I/N, such as 3/40")
    return int(part), int(parts)


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
