"""`holdfast study`."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.parsing import Commands, command, non_negative, positive, refuse_idle
from holdfast.console import Console, table
from holdfast.errors import HoldfastError, harmless, unknown

if TYPE_CHECKING:
    from holdfast.studies.base import Study
    from holdfast.studies.jobs import Cell, Scale
    from holdfast.studies.running import Places
    from holdfast.studies.store import Store

FINISHED = ("done", "stopped early")
"""States of cells that need nothing more."""


def add(commands: Commands) -> None:
    """Register the subcommand."""
    sub = command(
        commands, "study", run, "re-run a paper's claim and judge it by the numbers", "holdfast study A6 --scale pocket"
    )
    sub.add_argument("ids", nargs="+", metavar="ID", help="A1, H4, ... (`holdfast list studies`), or all")
    sub.add_argument("--scale", choices=("pocket", "paper"), metavar="SCALE", default="pocket", help="pocket or paper")
    sub.add_argument("--seeds", nargs="+", type=non_negative, metavar="N", help="in place of the study's own")
    sub.add_argument("--arm", nargs="+", metavar="NAME", help="run these arms only")
    sub.add_argument("--part", metavar="N/M", help="run the share of machine N of M")
    sub.add_argument("--jobs", type=positive, metavar="N", help="cells side by side (default 1)")
    sub.add_argument("--place", nargs="+", metavar="DATA=DIR", help="where a dataset lies: cub=DIR")
    sub.add_argument("--weights", nargs="+", metavar="BACKBONE=FILE", help="ImageNet weights: resnet50=FILE")
    sub.add_argument("--device", help="cpu, cuda or mps; by default the best there is")
    sub.add_argument("--limit-seconds", type=positive, metavar="S", help="begin no cell after so long")
    sub.add_argument("--merge", nargs="+", metavar="DIR", help="first take over the --out folders of other machines")
    sub.add_argument("--out", default="runs/studies", help="folder for everything (default: runs/studies)")
    only = sub.add_mutually_exclusive_group()
    only.add_argument("--list", action="store_true", help="list the cells and what they wait for, run nothing")
    only.add_argument("--summary", action="store_true", help="judge what is finished, run nothing")


def run(options: argparse.Namespace) -> None:
    """Run what is missing; print tables and verdicts; write raw results, figures and a page."""
    from holdfast.devices import choose_device
    from holdfast.studies.campaign import part_of, run_cells
    from holdfast.studies.state import check_weights, chosen, only_arms
    from holdfast.studies.store import Store

    _refuse_idle(options)
    scale: Scale = options.scale
    studies = chosen(options.ids, scale)
    store = Store(Path(options.out) / scale)
    places = _places(options)
    check_weights(places.weights, studies, scale)
    choose_device(places.device)
    console = Console(options.json)
    seeds = tuple(dict.fromkeys(options.seeds)) if options.seeds else None
    cells = only_arms([cell for study in studies for cell in study.cells(scale, seeds)], options.arm)
    if options.part:
        cells = part_of(cells, options.part)
    for other in options.merge or ():
        nested = Path(other) / scale
        for file in store.merge(nested if nested.is_dir() else other).differing:
            console.say(f"{file} is of another model than the record here; ours is kept")
    if options.list:
        _list(cells, store, places, options.json)
        return
    failed: dict[str, str] = {}
    if not options.summary:
        deadline = time.monotonic() + options.limit_seconds if options.limit_seconds else None
        failed = run_cells(cells, store, places, options.jobs or 1, console, deadline)
    names = {cell.key: f"{cell.arm}, seed {cell.seed}" for cell in cells} if failed else {}
    _tell(studies, scale, store, seeds, {names.get(key, key): why for key, why in failed.items()}, options.json)
    if failed:
        raise SystemExit(1)


def _refuse_idle(options: argparse.Namespace) -> None:
    """Refuse options that only matter to running cells where none are run."""
    idle = {
        "--jobs": options.jobs,
        "--weights": options.weights,
        "--device": options.device,
        "--limit-seconds": options.limit_seconds,
    }
    if options.list:
        refuse_idle(idle, "--list runs nothing")
    if options.summary:
        idle |= {"--arm": options.arm, "--part": options.part, "--place": options.place}
        refuse_idle(idle, "--summary runs nothing and judges whole studies")


def _tell(
    studies: Sequence[Study],
    scale: Scale,
    store: Store,
    seeds: tuple[int, ...] | None,
    failed: dict[str, str],
    plain: bool,
) -> None:
    """Write the raw files and the page, and print what they say."""
    from holdfast.studies.document import document, planned_seeds, results_of, title, write
    from holdfast.studies.judging import verdicts
    from holdfast.studies.page import write_page
    from holdfast.studies.state import gathered
    from holdfast.studies.tables import arm_table

    store.folder.mkdir(parents=True, exist_ok=True)
    documents, lines = [], []
    for study in studies:
        planned = planned_seeds(study.cells(scale, seeds))
        content = document(study, scale, gathered(study, scale, store, seeds), planned)
        results = results_of(content)
        if any(results.outcomes.values()):
            write(store.folder / f"{study.id}.json", content)
        lines += [f"{study.id}  {title(study)} ({study.source})", ""]
        lines += [table(*arm_table(study, scale, results, planned)), f"published: {study.published}", ""]
        for v in verdicts(study, scale, results):
            said = f" [{v.reading}]" if v.reading else ""
            lines.append(f"{v.words.upper()}: {v.claim}{said}\n    {v.evidence}")
        lines.append("")
        documents.append(content)
    page = store.folder / "results.md"
    write_page(scale, store.folder, page, store.folder / "figures")
    if plain:
        print(json.dumps({"studies": documents, "failed": failed, "page": str(page)}, ensure_ascii=False))
        return
    if failed:
        lines += ["Not run:", *[f"  {name}: {why}" for name, why in failed.items()], ""]
    print(harmless("\n".join([*lines, f"written to {page}"])))


def _list(cells: Iterable[Cell], store: Store, places: Places, plain: bool) -> None:
    from holdfast.studies.state import state

    rows: list[dict[str, Any]] = [
        {"arm": cell.arm, "seed": cell.seed, "state": state(cell, store, places), "cell": cell.key} for cell in cells
    ]
    if plain:
        print(json.dumps({"cells": rows}, ensure_ascii=False))
        return
    done = sum(row["state"] in FINISHED for row in rows)
    print(table(["arm", "seed", "state", "cell"], [list(row.values()) for row in rows], left=(2, 3)))
    print(f"{done} of {len(rows)} cells are done; equal ones are run once, which leaves {len(_left(rows))} to run")


def _left(rows: Iterable[dict[str, Any]]) -> set[str]:
    return {row["cell"] for row in rows if row["state"] not in FINISHED}


def _places(options: argparse.Namespace) -> Places:
    from holdfast.data import names
    from holdfast.studies.running import Places

    data = _pairs(options.place, "--place", "cub=DIR")
    for name, place in data.items():
        if name not in names():
            raise HoldfastError(unknown("dataset", name, names()))
        if not Path(place).exists():
            raise HoldfastError(f"--place {name}: {place} does not exist; give the folder that holds the dataset")
    weights = _pairs(options.weights, "--weights", "resnet50=FILE")
    for name, file in weights.items():
        if not Path(file.partition("@")[0]).is_file():
            raise HoldfastError(f"--weights {name}: {file.partition('@')[0]} is no file; give the weights' file")
    return Places(data=data, weights=weights, device=options.device)


def _pairs(words: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    pairs = {}
    for word in words or ():
        name, separator, value = word.partition("=")
        if not (name and separator and value):
            raise HoldfastError(f"{option} takes NAME=PATH, such as {example}, got '{word}'")
        pairs[name] = value
    return pairs
