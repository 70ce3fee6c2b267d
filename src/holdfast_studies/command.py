"""`holdfast study`: run what is missing of some studies, and say what came out."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from holdfast import console
from holdfast.cli.study import AUTO
from holdfast.console import table
from holdfast.data import names as datasets
from holdfast.devices import choose_device
from holdfast.errors import HoldfastError, harmless, unknown
from holdfast_studies import base
from holdfast_studies.base import Study
from holdfast_studies.bundle import take_bundle, write_bundle
from holdfast_studies.campaign import part_of, run_cells
from holdfast_studies.document import document, planned_seeds, results_of, write
from holdfast_studies.jobs import SCALES, Cell, Scale
from holdfast_studies.judging import verdicts
from holdfast_studies.page import order, write_page
from holdfast_studies.pending import Tally
from holdfast_studies.results import Results
from holdfast_studies.running import Places
from holdfast_studies.store import Store
from holdfast_studies.tables import arm_table

FINISHED = ("done", "stopped early")
"""States of cells that need nothing more."""


def run(options: argparse.Namespace) -> None:
    """Run what is missing; print tables and verdicts; write raw results, figures and a page."""
    began, scale = time.monotonic(), options.scale
    studies = chosen(options.ids, scale)
    store = Store(Path(options.out) / scale)
    places = _places(options)
    check_weights(places.weights, studies, scale)
    devices = devices_from(options.devices)
    seeds = tuple(dict.fromkeys(options.seeds)) if options.seeds else None
    cells = only_arms([cell for study in studies for cell in study.cells(scale, seeds)], options.arm)
    if options.part:
        cells = part_of(cells, options.part)
    jobs = [arm.job for study in studies for arm in study.arms(scale)]
    bundle = None if options.bundle is None else Path(options.bundle)
    if bundle is not None and bundle.exists():
        take_bundle(bundle, store, jobs)
    for other in options.merge or ():
        nested = Path(other) / scale
        for file in store.merge(nested if nested.is_dir() else other, jobs).differing:
            console.say(f"{file} is of another model than the record here; ours is kept")
    if options.list:
        _list(cells, store, places, options.json)
        return
    failed, tally = dict[str, str](), None
    if not options.summary:
        deadline = None if options.minutes is None else began + 60 * options.minutes
        count, tally = None if options.jobs in (None, AUTO) else options.jobs, Tally()
        try:
            failed = run_cells(cells, store, places, count, deadline, devices, tally)
        finally:
            if bundle is not None:
                write_bundle(bundle, store, cells, options.bundle_limit)
    names = {cell.key: f"{cell.arm}, seed {cell.seed}" for cell in cells} if failed else {}
    told = {names.get(key, key): why for key, why in failed.items()}
    _tell(studies, scale, store, seeds, told, tally, options.json)
    if failed:
        raise SystemExit(1)


def _tell(
    studies: Sequence[Study],
    scale: Scale,
    store: Store,
    seeds: tuple[int, ...] | None,
    failed: dict[str, str],
    tally: Tally | None,
    plain: bool,
) -> None:
    """Write the raw files and the page, and print what they say."""
    store.folder.mkdir(parents=True, exist_ok=True)
    documents, lines = [], []
    for study in studies:
        planned = planned_seeds(study.cells(scale, seeds))
        content = document(study, scale, gathered(study, scale, store, seeds), planned)
        results = results_of(content)
        if any(results.outcomes.values()):
            write(store.folder / f"{study.id}.json", content)
        lines += [f"{study.id}  {study.title} ({study.source})", ""]
        lines += [table(*arm_table(study, scale, results, planned)), f"published: {study.published}", ""]
        for v in verdicts(study, scale, results):
            lines.append(f"{v.words.upper()}: {v.full}\n    {v.evidence}")
        lines.append("")
        documents.append(content)
    page = store.folder / "results.md"
    write_page(scale, store.folder, page, store.folder / "figures")
    if plain:
        ran = {} if tally is None else {"campaign": tally.plain()}
        print(json.dumps({"studies": documents, "failed": failed, **ran, "page": str(page)}, ensure_ascii=False))
        return
    if failed:
        lines += ["Not run:", *[f"  {name}: {why}" for name, why in failed.items()], ""]
    if tally is not None and tally.cells + tally.left:
        lines.append(str(tally))
    print(harmless("\n".join([*lines, f"written to {page}"])))


def _list(cells: Iterable[Cell], store: Store, places: Places, plain: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"arm": cell.arm, "seed": cell.seed, "state": state(cell, store, places), "cell": cell.key} for cell in cells
    ]
    if plain:
        print(json.dumps({"cells": rows}, ensure_ascii=False))
        return
    done = sum(row["state"] in FINISHED for row in rows)
    left = {row["cell"] for row in rows if row["state"] not in FINISHED}
    print(table(["arm", "seed", "state", "cell"], [list(row.values()) for row in rows], left=(2, 3)))
    print(f"{done} of {len(rows)} cells are done; equal ones are run once, which leaves {len(left)} to run")


def _places(options: argparse.Namespace) -> Places:
    data = _pairs(options.place, "--place", "cub=DIR")
    for name, place in data.items():
        if name not in datasets():
            raise HoldfastError(unknown("dataset", name, datasets()))
        if not Path(place).exists():
            raise HoldfastError(f"--place {name}: {place} does not exist; give the folder that holds the dataset")
    weights = _pairs(options.weights, "--weights", "resnet50=FILE")
    for name, file in weights.items():
        if not Path(file.partition("@")[0]).is_file():
            raise HoldfastError(f"--weights {name}: {file.partition('@')[0]} is no file; give the weights' file")
    return Places(data=data, weights=weights)


def devices_from(text: str | None) -> list[str]:
    """The devices of `0,1` or `cpu`, where a number is that GPU; none for the best there is."""
    names = [f"cuda:{word}" if word.isdecimal() else word for word in (text.split(",") if text else ())]
    for name in names:
        choose_device(name)
    return list(dict.fromkeys(names))


def _pairs(words: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    pairs = {}
    for word in words or ():
        name, separator, value = word.partition("=")
        if not (name and separator and value):
            raise HoldfastError(f"{option} takes NAME=PATH, such as {example}, got '{word}'")
        pairs[name] = value
    return pairs


def chosen(ids: Sequence[str], scale: Scale) -> list[Study]:
    """The studies of some ids, or all that have this scale."""
    if "all" in (name.lower() for name in ids):
        if len(ids) > 1:
            raise HoldfastError("`all` is every study; leave the other names out, or leave out `all`")
        return [study for name in order(base.names()) if (study := base.get(name)).arms(scale)]
    studies = [base.get(name) for name in dict.fromkeys(name.upper() for name in ids)]
    for study in studies:
        if not study.arms(scale):
            other = next(known for known in SCALES if known != scale)
            raise HoldfastError(f"{study.id} has no {scale} scale; run it with --scale {other}")
    return studies


def only_arms(cells: Sequence[Cell], arms: Sequence[str] | None) -> list[Cell]:
    """The cells of some arms; all where none are named."""
    names = dict.fromkeys(cell.arm for cell in cells)
    for arm in arms or ():
        if arm not in names:
            raise HoldfastError(unknown("arm", arm, names))
    return [cell for cell in cells if not arms or cell.arm in arms]


def check_weights(weights: Iterable[str], studies: Iterable[Study], scale: Scale) -> None:
    """Refuse files of weights that no arm would begin with."""
    used = {arm.job.fetched for study in studies for arm in study.arms(scale)} - {None}
    for name in weights:
        if name not in used:
            known = f"those used are {', '.join(sorted(map(str, used)))}" if used else "no arm uses ImageNet weights"
            raise HoldfastError(f"--weights {name}: no arm that was asked for begins with them; {known}")


def state(cell: Cell, store: Store, places: Places) -> str:
    """`done`, `stopped early`, what is left to do, or what it needs first."""
    missing = store.missing(cell)
    if missing == []:
        return "stopped early" if store.read(cell).get("stopped") else "done"
    if lacks := places.lacks(cell):
        return f"not run; needs {lacks}"
    return "missing" if missing is None else f"trained; {len(missing)} of {len(cell.job.measures)} measures missing"


def gathered(study: Study, scale: Scale, store: Store, seeds: tuple[int, ...] | None) -> Results:
    """What is known of a study: of the seeds asked for, and of all others that were run some time."""
    asked = {cell.seed for cell in study.cells(scale, seeds)}
    return store.results(study.arms(scale), study.cells(scale, tuple(sorted(asked | store.seeds()))))
