"""Vectors of more images than memory holds, in files of so many each, of which none is made twice."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import console
from holdfast.data import ImageStore, ImageTable
from holdfast.errors import SearchError, plural
from holdfast.evaluation import embed
from holdfast.files import write_json
from holdfast.models import Embedder
from holdfast.processes import ALONE, current_processes, use_processes
from holdfast.run_files import parse_json
from holdfast.search.embedding import model_facts
from holdfast.search.vector_files import check_format, save_vectors
from holdfast.versions import versions

SCHEMA = 1
ABOUT = "shards.json"


@dataclasses.dataclass(frozen=True)
class Sharded:
    """What became of some images.

    Args:
        files: that hold all vectors.
        kept: of these, those that an earlier call had written.
        skipped: images that could not be read, of the files written now.
    """

    files: int
    kept: int
    skipped: int


def write_shards(
    folder: Path, model: Embedder, table: ImageTable, size: int, *, batch: int = 256, skip_bad: bool = False
) -> Sharded:
    """Embed images into parquet files of `size` each; a call that was stopped goes on with the files that are missing.

    Several processes take files in turn, and each needs the memory of one.

    Args:
        folder: for the files; one with vectors of another model, or of images of other names, is refused.
        model: on its device.
        table: the images.
        size: images of a file.
        batch: images per pass.
        skip_bad: leave unreadable images out.
    """
    check_format(folder / "part.parquet")
    processes, count = current_processes(), math.ceil(len(table) / size)
    processes.tell(lambda: _begin(folder, _about(model, table, size)))
    kept = skipped = 0
    mine = range(processes.rank, count, processes.world)
    for number in mine:
        file = folder / f"part-{number:05d}-of-{count:05d}.parquet"
        if file.is_file():
            kept += 1
            continue
        part = table.subset(np.arange(number * size, min((number + 1) * size, len(table))))
        console.say(f"file {number + 1:,} of {count:,}")
        with use_processes(ALONE):
            store = ImageStore(part, model.view, model.mean.device, skip_bad=skip_bad, once=True)
            save_vectors(file, embed(model, store, batch), store.table)
        skipped += len(store.skipped)
    return Sharded(count, processes.total(kept), processes.total(skipped))


def _about(model: Embedder, table: ImageTable, size: int) -> dict[str, Any]:
    """What all files of a folder have in common."""
    names = hashlib.blake2b("\n".join(table.ids).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    facts = model_facts(model.eval(), "")
    return {
        "schema": SCHEMA,
        "images": len(table),
        "names": names,
        "images_per_file": size,
        "dim": model.dim,
        "weights": facts.weights,
        "view": str(facts.view),
    }


def _begin(folder: Path, about: dict[str, Any]) -> None:
    """Write down what the files of a folder hold; refused where that is something else."""
    file = folder / ABOUT
    if file.is_file():
        try:
            stored = parse_json(file.read_bytes())
        except ValueError:
            stored = None
        if not isinstance(stored, dict) or {key: stored.get(key) for key in about} != about:
            what = "vectors of another model, of other images, or in files of another size"
            raise SearchError(f"{folder} holds {what}; give another --out")
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SearchError(f"{folder} holds {plural(_entries(folder), 'file')} of something else; give another --out")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(file, {**about, "versions": versions()})


def _entries(folder: Path) -> int:
    return len(list(folder.iterdir())) if folder.is_dir() else 1
