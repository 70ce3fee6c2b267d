"""Write the vectors of images to disk.

holdfast embed runs/demo/hm --data folder:photos
"""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast.cli.parsing import MODEL_ON_DATA, Answer, Parser, images_from, model_from, shared, writable
from holdfast.errors import plural


def arguments(sub: Parser) -> None:
    """Declare the options."""
    shared(sub, "--data", required=True)
    shared(sub, *MODEL_ON_DATA)
    sub.add_argument("--out", help="npz or parquet file (default: embeddings.npz)")


def run(options: argparse.Namespace) -> Answer | None:
    """Write vectors."""
    from holdfast.data import ImageStore
    from holdfast.devices import choose_device
    from holdfast.evaluation import embed, used_once
    from holdfast.processes import joined
    from holdfast.search.store import check_format, save_vectors

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
