"""What `thorough` saves, and what it misses: beside it, every attack on every query at every eps, in one process.

    python benchmarks/thorough.py runs/demo/standard runs/demo/hm --data glyphs --limit 100 --json thorough.json

Both ways attack the same images, and robust R@1 is measured behind each. `broken` counts pairs of a query and an eps
that one way alone breaks, `radius` is the mean ratio (geometric) of the smallest eps that either finds.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import write
from torch import Tensor, nn

from holdfast.attacks import Budget
from holdfast.audit.base import Part
from holdfast.audit.ensemble import Ensemble, Robust, run_together
from holdfast.audit.plan import Passes, Progress
from holdfast.audit.preparation import Execution, Selection, borrow_model, make_subject, speed_up
from holdfast.audit.state import Queue, attack_all
from holdfast.audit.subject import Subject
from holdfast.audit.thorough import Thorough, label, scores, smallest_eps, suite
from holdfast.data import ImageTable
from holdfast.devices import choose_device
from holdfast.evaluation import choose_split, read_table
from holdfast.robustness import ROBUST


class Exhaustive(Thorough):
    """Every attack on every query, to its last step, at every eps."""

    def parts(self, subject: Subject) -> list[Part]:
        """One part per eps, none of which knows of another."""
        parts = [(part, part.budget) for part in super().parts(subject)]
        return [
            dataclasses.replace(part, attack=_every(subject, budget), after=None, exhaustive=False)
            for part, budget in parts
            if budget
        ]


def _every(subject: Subject, budget: Budget) -> Callable[[slice], dict[str, Tensor]]:
    attacks = {member: member.bind(subject) for member in suite(subject, budget)}

    def attack(block: slice) -> dict[str, Tensor]:
        rows = subject.rows[block]
        tried = [found for member, goal in attacks.items() for found in run_together(subject, {member: goal}, block)]
        hits, precision = map(torch.stack, zip(*(scores(subject, found.vectors, rows) for found in tried), strict=True))
        worst = (hits + precision).nan_to_num(9).argmin(0).to(rows.device)
        images = torch.stack([found.images for found in tried])[worst, torch.arange(len(rows), device=rows.device)]
        clean = subject.references.hits(subject.references.clean(rows), rows).cpu()
        needed = smallest_eps(subject, subject.images(rows), images, rows)
        radius = needed.masked_fill(hits.amin(0) > 0, torch.inf).masked_fill(clean == 0, 0.0)
        radius = radius.masked_fill(clean.isnan(), torch.nan)
        return {"hit": hits.amin(0), "precision": precision.amin(0), "radius": radius}

    return attack


def one_way(protocol: Thorough, subject: Subject) -> tuple[dict[str, Any], Tensor, Tensor]:
    """Figures and costs; by eps which queries hold, and the smallest eps that breaks each."""
    begun, processor = time.perf_counter(), time.process_time()
    parts = protocol.parts(subject)
    queue = Queue.of(parts, subject, protocol.passes(subject), None)
    measured, costs = attack_all(queue, subject, None, Progress(Passes()))
    robust = Robust(Ensemble(), protocol, subject, parts)
    robust.attack(measured, None, Progress(Passes()))
    row: dict[str, Any] = {"seconds": time.perf_counter() - begun, "processor": time.process_time() - processor}
    figures = protocol.figures(subject, measured)
    robust.report(figures, measured)
    attacks = sum((cost.passes for cost in costs.values()), Passes())
    row |= {"curve": figures.extra["curve"], "breaking_eps": figures.values["breaking_eps"]}
    row |= {ROBUST: figures.values[ROBUST], "robust_seconds": robust.cost.seconds}
    row |= {"passes": dataclasses.asdict(attacks), "planned": dataclasses.asdict(queue.total)}
    row |= {"robust_passes": dataclasses.asdict(robust.cost.passes)}
    names = [label(eps) for eps in protocol.all_eps()]
    held = torch.stack([measured[name]["hit"] for name in names]).nan_to_num(0).cummin(0).values
    return row, held, torch.stack([measured[name]["radius"] for name in names]).amin(0)


def measure(model: str | nn.Module, data: str | ImageTable, limit: int) -> dict[str, Any]:
    """Both ways on the same images of a model."""
    table, _ = read_table(data, False)
    with borrow_model(model, None, False, choose_device(None)) as (embedder, _):
        subject, _, _ = make_subject(embedder, Selection(table, choose_split(table, None), limit), Execution())
        subject = speed_up(subject, Thorough().budget(subject), Execution(compile=False))
        ours, held, radius = one_way(Thorough(), subject)
        every, stood, other = one_way(Exhaustive(), subject)
    both = (radius > 0) & radius.isfinite() & other.isfinite()
    return {
        "model": str(model),
        "images": len(radius),
        "ours": ours,
        "every": every,
        "broken": {"ours": int(((held == 0) & (stood > 0)).sum()), "every": int(((held > 0) & (stood == 0)).sum())},
        "radius": float((radius[both] / other[both]).log().mean().exp()),
        "faster": {key: every[key] / ours[key] for key in ("seconds", "processor")},
    }


def lines(row: dict[str, Any]) -> str:
    """A row for people."""
    told = [f"{row['model']} on {row['images']} images"]
    for name in ("every", "ours"):
        way = row[name]
        for key in ("R@1", "mAP@R"):
            values = " ".join(f"{point[key]:5.1f}" for point in way["curve"])
            told.append(f"  {name:5s} {key:5s} at {[round(255 * point['eps'], 2) for point in way['curve']]}: {values}")
        passes, at = way["passes"], 255 * (way["breaking_eps"] or float("nan"))
        planned = way["planned"]
        told.append(
            f"        breaks at {at:.3f}/255, robust R@1 {way[ROBUST]:.1f}; passes forward and back {passes['back']:,} "
            f"of {planned['back']:,} planned, forward {passes['forward']:,} of {planned['forward']:,}"
        )
    faster = ", ".join(f"{value:.2f} x in {key}" for key, value in row["faster"].items())
    told.append(f"  faster: {faster}; radius {row['radius']:.3f} x; broken by one way alone: {row['broken']}")
    return "\n".join(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", default="glyphs")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    for model in arguments.models:
        rows.append(measure(model, arguments.data, arguments.limit))
        print(lines(rows[-1]), flush=True)
        write(rows, arguments.json)


if __name__ == "__main__":
    main()
