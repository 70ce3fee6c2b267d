"""Write the vectors of images to disk.

holdfast embed runs/demo/hm --data folder:photos
holdfast embed runs/demo/hm --data folder:photos --shard 100000 --out vectors
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from holdfast.cli.parsing import (
    MODEL_ON_DATA,
    CommandResult,
    Parser,
    images_from,
    model_from,
    positive,
    shared,
    writable,
)
from holdfast.errors import plural


def arguments(sub: Parser) -> None:
    """Declare the options."""
    shared(sub, "--data", required=True)
    shared(sub, *MODEL_ON_DATA)
    sub.add_argument("--out", help="npz or parquet file (default: embeddings.npz); with --shard a folder (embeddings)")
    sub.add_argument(
        "--shard",
        type=positive,
        metavar="N",
        help="parquet files of N images; run again, it goes on",
    )


def run(options: argparse.Namespace) -> CommandResult | None:
    """Write vectors."""
    from holdfast.data import ImageStore
    from holdfast.devices import choose_device
    from holdfast.evaluation import embed, used_once
    from holdfast.processes import joined
    from holdfast.search.vector_files import check_format, save_vectors

    if options.shard:
        return _sharded(options)
    out = check_format(Path(options.out or "embeddings.npz"))
    device = choose_device(options.device)
    with joined(device) as processes:
        images, skip_bad = images_from(options, options.data)
        model = model_from(options, device)
        store = ImageStore(images, model.view, device, used_once(), skip_bad, once=True)
        vectors = embed(model, store, options.batch or 256)
        if not processes.main:
            return None
        save_vectors(writable(str(out)), vectors, store.table)
    facts = {"file": str(out), "images": len(vectors), "dim": vectors.shape[1], "skipped": len(store.skipped)}
    skipped = f"; {plural(len(store.skipped), 'unreadable image')} skipped" if store.skipped else ""
    return facts, f"{plural(len(vectors), 'vector')} of {vectors.shape[1]} dims in {out}{skipped}"


def _sharded(options: argparse.Namespace) -> CommandResult | None:
    """Write vectors file by file."""
    from holdfast.devices import choose_device
    from holdfast.processes import joined
    from holdfast.search.shards import write_shards

    folder, device = Path(options.out or "embeddings"), choose_device(options.device)
    with joined(device) as processes:
        images, skip_bad = images_from(options, options.data)
        model = model_from(options, device)
        batch = options.batch or 256
        found = write_shards(folder, model, images, options.shard, batch=batch, skip_bad=skip_bad)
        if not processes.main:
            return None
    facts = {"folder": str(folder), "images": len(images), "dim": model.dim, **dataclasses.asdict(found)}
    more = f", {found.kept:,} of them from before" if found.kept else ""
    more += f"; {plural(found.skipped, 'unreadable image')} skipped" if found.skipped else ""
    return facts, f"vectors of {plural(len(images), 'image')} in {plural(found.files, 'file')} in {folder}{more}"
