"""Make images searchable, or add some to an index.

holdfast index runs/demo/hm --data folder:photos --out photos.index
holdfast index photos.index --add images:more
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.parsing import (
    MODEL_ON_DATA,
    CommandResult,
    Parser,
    images_from,
    model_from,
    non_negative,
    refuse_idle,
    refuse_idle_milvus,
    shared,
    writable,
)
from holdfast.errors import HoldfastError, plural

if TYPE_CHECKING:
    import torch

    from holdfast.search import Index
    from holdfast.search.filling import Added


def arguments(sub: Parser) -> None:
    """Declare the options."""
    shared(sub, "model", help="{models}; with --add, the index")
    images = sub.add_mutually_exclusive_group(required=True)
    shared(images, "--data")
    images.add_argument("--add", metavar="DATA", help="images to add; those that have not changed are skipped")
    shared(sub, *MODEL_ON_DATA[1:])
    sub.add_argument("--prefix", default="", help="written before the images' names, to keep two folders apart")
    sub.add_argument("--kind", help="flat (exact), ivf or hnsw (faster after thousands of queries), or milvus")
    shared(sub, "--milvus")
    sub.add_argument("--model", dest="own", metavar="MODEL", help="with --add: the model, where it is not inside")
    sub.add_argument(
        "--calibrate", type=non_negative, metavar="N", help="marks for tampered queries rest on N clean images (600)"
    )
    sub.add_argument("--out", help="folder for the index")


def run(options: argparse.Namespace) -> CommandResult | None:
    """Build or extend an index."""
    from holdfast.devices import choose_device
    from holdfast.processes import joined

    _refuse(options)
    device = choose_device(options.device)
    with joined(device) as processes:
        folder, index, added = _built(options, device)
    if not processes.main:
        return None
    counts = dataclasses.asdict(added)
    facts = {"folder": str(folder), "images": len(index), "dim": index.dim, "kind": index.kind}
    told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "nothing to add"
    words = f"{told}; {plural(len(index), 'image')} of {index.dim} dims in {folder} ({index.kind})"
    return {**facts, **counts, "calibrated_on": len(index.clean)}, words


def _built(options: argparse.Namespace, device: torch.device) -> tuple[Path, Index, Added]:
    """The folder, the index in it, and what was added."""
    from holdfast.processes import current_processes
    from holdfast.search import add_images, create_index
    from holdfast.search.building import CALIBRATED_ON

    table, skip_bad = images_from(options, options.add or options.data)
    table = dataclasses.replace(table, ids=[options.prefix + name for name in table.ids])
    if options.add:
        folder = Path(options.model)
        own = model_from(options, device, options.own) if options.own else None
        batch, trust_code = options.batch or 256, options.trust_code
        return folder, *add_images(
            folder,
            table,
            model=own,
            milvus=options.milvus,
            device=device,
            batch=batch,
            skip_bad=skip_bad,
            trust_code=trust_code,
        )
    folder = Path(current_processes().tell(lambda: str(writable(options.out))))
    return folder, *create_index(
        folder,
        model_from(options, device),
        table,
        reference=Path(options.model).name if Path(options.model).exists() else options.model,
        kind=options.kind,
        milvus=options.milvus,
        calibrate=CALIBRATED_ON if options.calibrate is None else options.calibrate,
        batch=options.batch or 256,
        seed=options.seed or 0,
        skip_bad=skip_bad,
        **_of_run(Path(options.model)),
    )


def _of_run(model: Path) -> dict[str, Any]:
    """Audits and thresholds of a run; of what is no run, none are known."""
    from holdfast.run_folder import read_run
    from holdfast.search.verification import thresholds_of

    if not (model / "recipe.yaml").is_file():
        return {}
    run = read_run(model)
    return {"audits": run.current_audits.values(), "thresholds": thresholds_of(run.verification)}


def _refuse(options: argparse.Namespace) -> None:
    """Refuse options that are wrong or would do nothing, before any work is done."""
    from holdfast.search.building import check_milvus
    from holdfast.search.kinds import kind_for

    if not options.add:
        check_milvus(kind_for(0, options.kind), options.milvus)
        if options.own:
            raise HoldfastError("--model is for --add; here the model is the first argument: leave it out")
        if not Path(options.out or "").name:  # nor is `.` the name of one that can be moved into its place
            raise HoldfastError("say where the index goes: --out FOLDER, by its name")
        return
    refuse_idle(options, "--out", "the index stays where it is")
    refuse_idle(options, "--kind --seed --calibrate", "an index keeps its kind, seed and calibration")
    refuse_idle_milvus(options, Path(options.model))
    if not options.own:
        refuse_idle(options, "--size", "the model inside the index knows its own")
