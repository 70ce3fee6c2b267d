"""`holdfast index`."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.parsing import (
    DATA_HELP,
    MODEL_HELP,
    Commands,
    command,
    common,
    non_negative,
    positive,
    refuse_idle,
    writable,
)
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    import torch

    from holdfast.data import ImageTable
    from holdfast.search import Index
    from holdfast.search.building import Added


def add(commands: Commands) -> None:
    """Register the subcommand."""
    sub = command(
        commands,
        "index",
        run,
        "make images searchable, or add some to an index",
        "holdfast index runs/demo/hm --data folder:photos --out photos.index\n"
        "          holdfast index photos.index --add images:more",
    )
    sub.add_argument("model", metavar="MODEL", help=f"{MODEL_HELP}; with --add, the index")
    images = sub.add_mutually_exclusive_group(required=True)
    images.add_argument("--data", metavar="DATA", help=DATA_HELP)
    images.add_argument("--add", metavar="DATA", help="images to add; those that have not changed are skipped")
    sub.add_argument("--split", help="train, val, test, query, gallery or all (default)")
    sub.add_argument("--prefix", default="", help="written before the images' names, to keep two folders apart")
    sub.add_argument("--kind", choices=("flat", "ivf", "hnsw"), metavar="KIND", help="flat (exact), ivf or hnsw")
    sub.add_argument("--model", dest="own", metavar="MODEL", help="with --add: the model, where it is not inside")
    sub.add_argument("--calibrate", type=non_negative, metavar="N", help="on N clean images (1000)")
    sub.add_argument("--batch", type=positive, default=256, help="images per pass")
    sub.add_argument("--size", type=positive, help="input size, for models that do not know their own")
    sub.add_argument("--trust-code", action="store_true", help="let a package import its own module")
    common(sub, "folder for the index")


def run(options: argparse.Namespace) -> None:
    """Build or extend an index."""
    from holdfast.devices import choose_device
    from holdfast.processes import joined

    _refuse(options)
    device = choose_device(options.device)
    with joined(device) as processes:
        folder, index, added = _built(options, device)
    if not processes.main:
        return
    counts = dataclasses.asdict(added)
    if options.json:
        facts = {"folder": str(folder), "images": len(index), "dim": index.dim, "kind": index.structure.name}
        print(json.dumps({**facts, **counts, "calibrated_on": len(index.clean)}))
        return
    told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "nothing to add"
    print(f"{told}; {len(index):,} images of {index.dim} dims in {folder} ({index.structure.name})")


def _built(options: argparse.Namespace, device: torch.device) -> tuple[Path, Index, Added]:
    """The folder, the index in it, and what was added."""
    from holdfast.evaluation import choose_split, read_table
    from holdfast.models import load_model
    from holdfast.processes import current_processes
    from holdfast.search import add_images, create_index
    from holdfast.search.building import CALIBRATED_ON

    table, skip_bad = read_table(options.add or options.data, options.skip_bad)
    split = choose_split(table, options.split or "all")
    table = _named(table if split == "all" else table.split(split), options.prefix)
    if options.add:
        folder = Path(options.model)
        own = load_model(options.own, options.size, options.trust_code).to(device) if options.own else None
        index, added = add_images(
            folder,
            table,
            model=own,
            device=device,
            batch=options.batch,
            skip_bad=skip_bad,
            trust_code=options.trust_code,
        )
        return folder, index, added
    folder = Path(current_processes().tell(lambda: str(writable(options.out))))
    index, added = create_index(
        folder,
        load_model(options.model, options.size, options.trust_code).to(device),
        table,
        reference=Path(options.model).name if Path(options.model).exists() else options.model,
        kind=options.kind,
        calibrate=CALIBRATED_ON if options.calibrate is None else options.calibrate,
        batch=options.batch,
        seed=options.seed or 0,
        skip_bad=skip_bad,
    )
    return folder, index, added


def _named(table: ImageTable, prefix: str) -> ImageTable:
    return dataclasses.replace(table, ids=[prefix + name for name in table.ids])


def _refuse(options: argparse.Namespace) -> None:
    """Refuse options that would do nothing, before any work is done."""
    if not options.add:
        refuse_idle({"--model": options.own}, "the model is the first argument")
        if not options.out:
            raise HoldfastError("say where the index goes: --out FOLDER")
        return
    refuse_idle({"--out": options.out}, "the index stays where it is")
    kept = {"--kind": options.kind, "--seed": options.seed, "--calibrate": options.calibrate}
    refuse_idle(kept, "an index keeps its kind, seed and calibration")
    if not options.own:
        refuse_idle({"--size": options.size}, "the model inside the index knows its own")
