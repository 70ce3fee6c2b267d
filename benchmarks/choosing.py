"""Regimes side by side: train, audit and tabulate shipped recipes over several seeds.

    python benchmarks/choosing.py --recipes triplet-pocket act-pocket hm-lga-pocket --seeds 0 1 2 --jobs 2

Every recipe is trained on the same data with every seed, then audited: `ers` (ERS and its ten attacks), `adml`
(alignment, uniformity, triplet) and `stax` (single-target images, also at ten times the radius). Runs and audits
resume, so a campaign that was cut goes on when the same command is given again. The table is mean ± standard deviation
over seeds; `--json` keeps every figure of every run. Tables in docs/results/notebook-regimes.md come from here.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

COLUMNS = {
    "R@1": ("evaluation", "R@1"),
    "ERS": ("ers", "ERS"),
    "alignment R@1": ("adml", "alignment/R@1"),
    "uniformity R@1": ("adml", "uniformity/R@1"),
    "stax R@1": ("stax", "stax/R@1"),
    "stax-large R@1": ("stax", "stax-large/R@1"),
    "passes": ("log", "passes"),
    "seconds": ("log", "seconds"),
}


def holdfast(*arguments: str) -> dict[str, Any]:
    """One command with --json; a run that stops by itself (a collapse) is data too."""
    command = [sys.executable, "-m", "holdfast", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"rc {done.returncode}"}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def one(recipe: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train one recipe with one seed and audit it."""
    folder = options.out / f"{recipe}-s{seed}"
    device = ["--device", options.device] if options.device else []
    settings = [part for setting in options.set for part in ("--set", setting)]
    start = time.perf_counter()
    trained = holdfast(
        "train", recipe, "--data", options.data, "--seed", str(seed), "--out", str(folder), *device, *settings
    )
    row: dict[str, Any] = {"recipe": recipe, "seed": seed, "error": trained.get("error")}
    if "error" not in trained:
        row["evaluation"] = trained["metrics"]
        row["log"] = {"seconds": time.perf_counter() - start, **log_of(folder)}
        for protocol in options.protocols:
            audit = holdfast(
                *("audit", str(folder), "--data", options.data, "--protocol", protocol, "--limit", str(options.limit)),
                *("--out", str(folder / f"audit-{protocol}"), *device),
            )
            row["error"] = row["error"] or audit.get("error")
            row[protocol] = audit.get("metrics")
            row[f"{protocol}-flags"] = [flag["name"] for flag in audit.get("flags", [])]
    print(f"{recipe} seed {seed}: {row['error'] or summary(row)}", file=sys.stderr, flush=True)
    return row


def log_of(folder: Path) -> dict[str, float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    best = max((line["validation"]["R@1"] for line in lines if "validation" in line), default=float("nan"))
    passes = [line["passes"] for line in lines if "passes" in line]
    last = next(line for line in reversed(lines) if "passes" in line)
    watched = {key: last[key] for key in last if key.startswith(("hardness", "moved", "spread"))}
    return {"passes": statistics.mean(passes), "validation": best, **watched}


def value(row: dict[str, Any], column: str) -> float | None:
    where, key = COLUMNS[column]
    found = (row.get(where) or {}).get(key)
    return None if found is None else float(found)


def summary(row: dict[str, Any]) -> str:
    cells = ((column, value(row, column)) for column in COLUMNS)
    return "  ".join(f"{column} {found:.1f}" for column, found in cells if found is not None)


def cell(values: Sequence[float | None]) -> str:
    known = [v for v in values if v is not None]
    if not known:
        return "-"
    spread = f" ± {statistics.stdev(known):.1f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):.1f}{spread}"


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| recipe | " + " | ".join(COLUMNS) + " |", "| --- |" + " --- |" * len(COLUMNS)]
    for recipe in dict.fromkeys(row["recipe"] for row in rows):
        mine = [row for row in rows if row["recipe"] == recipe]
        cells = [cell([value(row, column) for row in mine]) for column in COLUMNS]
        lines.append(f"| {recipe} | " + " | ".join(cells) + " |")
    stopped = [f"{row['recipe']} seed {row['seed']}: {row['error']}" for row in rows if row["error"]]
    return "\n".join([*lines, *stopped])


def main() -> None:
    parser = argparse.ArgumentParser(description="Train, audit and tabulate recipes over several seeds.")
    parser.add_argument("--recipes", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--data", default="glyphs")
    parser.add_argument("--limit", type=int, default=500, help="images attacked per audit")
    parser.add_argument("--protocols", nargs="*", default=["ers", "adml", "stax"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override in every recipe")
    parser.add_argument("--device")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--out", type=Path, default=Path("runs/choosing"))
    parser.add_argument("--json", type=Path, help="write every figure of every run to this file")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // options.jobs)))
    work = [(recipe, seed) for seed in options.seeds for recipe in options.recipes]
    rows: list[dict[str, Any]] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda job: one(job[0], job[1], options), work):
            rows.append(row)
            if options.json:  # after every run: a campaign is long
                content = {"options": {k: str(v) for k, v in vars(options).items()}, "runs": rows}
                options.json.write_text(json.dumps(content, indent=1))
    print(table(rows))


if __name__ == "__main__":
    main()
