"""Vectors of more images than memory holds, in files of so many each, of which none is made twice."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

from holdfast import console
from holdfast.data import ImageStore, ImageTable
from holdfast.errors import DataError, SearchError, plural
from holdfast.evaluation import embed
from holdfast.files import write_json
from holdfast.locks import locked
from holdfast.models import Embedder
from holdfast.processes import ALONE, current_processes, use_processes
from holdfast.run_files import parse_json
from holdfast.search.building import LOCK
from holdfast.search.embedding import model_facts, same_model
from holdfast.search.flat import Vectors
from holdfast.search.index import ModelFacts, refuse_unusable
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
    facts = model_facts(model.eval(), "")
    refuse_unusable(facts.probe, "a vector of this model")
    about, kept, skipped = _about(facts, table, size), 0, 0
    with ExitStack() as stack:

        def begin() -> None:
            if folder.exists() and not folder.is_dir():
                raise SearchError(f"{folder} is no folder; give another --out")
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder / LOCK, f"the folder {folder}"))
            _begin(folder, about, facts.probe)

        processes.tell(begin)
        for number in range(processes.rank, count, processes.world):
            file = folder / f"part-{number:05d}-of-{count:05d}.parquet"
            if file.is_file():
                kept += 1
                continue
            part = table.subset(np.arange(number * size, min((number + 1) * size, len(table))))
            console.say(f"file {number + 1:,} of {count:,}")
            with use_processes(ALONE):
                skipped += _write(file, model, part, batch, skip_bad)
        return Sharded(count, processes.total(kept), processes.total(skipped))


def _write(file: Path, model: Embedder, part: ImageTable, batch: int, skip_bad: bool) -> int:
    """Embed the images of one file; how many could not be read. Where none could, the file holds no rows."""
    try:
        store = ImageStore(part, model.view, model.mean.device, skip_bad=skip_bad, once=True)
    except DataError:
        if not skip_bad:
            raise
        save_vectors(file, torch.empty(0, model.dim), part.subset(np.arange(0)))
        return len(part)
    save_vectors(file, embed(model, store, batch), store.table)
    return len(store.skipped)


def _about(facts: ModelFacts, table: ImageTable, size: int) -> dict[str, Any]:
    """What all files of a folder have in common."""
    names = hashlib.blake2b("\n".join(table.ids).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return {
        "schema": SCHEMA,
        "images": len(table),
        "names": names,
        "images_per_file": size,
        "dim": facts.probe.shape[1],
        "weights": facts.weights,
        "view": str(facts.view),
    }


def _begin(folder: Path, about: dict[str, Any], probe: Vectors) -> None:
    """Write down what the files of a folder hold, and the model's probe; refused where that is something else."""
    file = folder / ABOUT
    if file.is_file():
        try:
            stored = parse_json(file.read_bytes())
        except ValueError:
            stored = None
        if not _same(stored, about, probe):
            what = "vectors of another model, of other images, or in files of another size"
            raise SearchError(f"{folder} holds {what}; give another --out")
        return
    if others := [path for path in folder.iterdir() if path.name != LOCK]:
        raise SearchError(f"{folder} holds {plural(len(others), 'file')} of something else; give another --out")
    write_json(file, {**about, "probe": probe.tolist(), "versions": versions()})


def _same(stored: Any, about: dict[str, Any], probe: Vectors) -> bool:
    """Whether a folder's files are such as would be written now."""
    if not isinstance(stored, dict) or {key: stored.get(key) for key in about} != about:
        return False
    if "probe" not in stored:  # a folder of before, which goes by the weights alone
        return bool(about["weights"])
    try:
        return same_model(probe, np.array(stored["probe"], np.float32))
    except (TypeError, ValueError):
        return False
