"""From a model and images to an index, and more images into one."""

from __future__ import annotations

import dataclasses
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

from holdfast import console, seeds
from holdfast.data import ImageStore, ImageTable
from holdfast.errors import ModelError, SearchError
from holdfast.evaluation import used_once
from holdfast.files import new_folder
from holdfast.locks import locked
from holdfast.models import Embedder, load_model
from holdfast.processes import current_processes
from holdfast.robustness import excerpt
from holdfast.search.embedding import (
    embed_images,
    fingerprint_images,
    measure_moves,
    model_facts,
    refuse_other_model,
)
from holdfast.search.flat import Rows, Vectors
from holdfast.search.index import Index, Thresholds, kind_for
from holdfast.search.querying import statistics
from holdfast.search.store import MODEL, read_index, read_manifest, write_index

LOCK = ".lock"
CALIBRATED_ON = 600
"""Images whose statistics stand for clean queries; at one false alarm in a hundred, six of them are beyond."""


@dataclasses.dataclass(frozen=True)
class Added:
    """What became of the images given to an index."""

    added: int
    replaced: int
    unchanged: int
    skipped: int


def create_index(
    folder: Path,
    model: Embedder,
    table: ImageTable,
    *,
    reference: str = "",
    kind: str | None = None,
    calibrate: int = CALIBRATED_ON,
    batch: int = 256,
    seed: int = 0,
    skip_bad: bool = False,
    audits: Iterable[Mapping[str, Any]] = (),
    thresholds: Thresholds = (),
) -> tuple[Index, Added]:
    """Embed images and write an index of them.

    Args:
        folder: for the index; it must not be there yet.
        model: on its device; packaged inside the index where it can be.
        table: the images, with or without labels.
        reference: what to call the model.
        kind: flat, ivf or hnsw; by the number of images when left out.
        calibrate: how many images, at most, show what clean queries look like; 0 for none.
        batch: images per pass.
        seed: of everything random.
        skip_bad: leave unreadable images out.
        audits: documents of the model's audits; a search says what they found.
        thresholds: of the model, by which a search calls two images the same.
    """
    kind = kind_for(len(table), kind)
    processes = current_processes()
    with ExitStack() as stack:

        def begin() -> None:
            # Beside the folder, which is moved into its place when it is whole.
            stack.enter_context(locked(folder.with_name(f".{folder.name}{LOCK}"), f"the index {folder}"))
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise SearchError(f"{folder} is there already; add to an index with --add, or give another --out")

        processes.tell(begin)
        images = _Images(model.eval(), table, batch, skip_bad)
        everything = np.arange(len(images.store))
        vectors = embed_images(model, images.store, everything, batch)
        facts = dataclasses.replace(model_facts(model, reference), audit=excerpt(audits), thresholds=thresholds)
        index = Index(vectors, images.ids, images.labels, images.fingerprints, facts, kind, seed)
        index = _calibrated(index, model, images, everything, vectors, calibrate)
        if processes.main:
            _write_new(folder, model, index)
    return index, Added(len(index), 0, 0, len(images.store.skipped))


def _write_new(folder: Path, model: Embedder, index: Index) -> None:
    """A folder with an index and, where it can be packaged, its model."""
    with new_folder(folder) as aside:
        try:
            model.save_pretrained(aside / MODEL)
        except ModelError:  # a wrapped module or graph; a search must be given it
            shutil.rmtree(aside / MODEL, ignore_errors=True)
        write_index(aside, index)


def add_images(
    folder: Path,
    table: ImageTable,
    *,
    model: Embedder | None = None,
    device: torch.device | str = "cpu",
    batch: int = 256,
    skip_bad: bool = False,
    trust_code: bool = False,
) -> tuple[Index, Added]:
    """Add images to the index of a folder; those that are in it already, and have not changed, are skipped.

    Args:
        folder: of the index. Until the very end it stays as it is.
        table: the images.
        model: the one that made the index; the one inside it when left out.
        device: where that one runs.
        batch: images per pass.
        skip_bad: leave unreadable images out.
        trust_code: let the model inside import its own module.
    """
    processes = current_processes()
    with ExitStack() as stack:

        def begin() -> None:
            read_manifest(folder)  # nothing is written into a folder that holds no index
            stack.enter_context(locked(folder / LOCK, f"the index {folder}"))

        processes.tell(begin)
        manifest = read_manifest(folder)
        index = read_index(folder, manifest)
        model = model_of(folder, index, model, device, trust_code)
        images = _Images(model, table, batch, skip_bad)
        row_of = {name: row for row, name in enumerate(index.ids)}
        old = [row_of.get(name) for name in images.ids]
        same = [
            row is not None and bool((index.fingerprints[row] == own).all()) and index.labels[row] == label
            for row, own, label in zip(old, images.fingerprints, images.labels, strict=True)
        ]
        new = np.flatnonzero(~np.array(same, bool))
        replaced = sum(old[row] is not None for row in new)
        done = Added(len(new) - replaced, replaced, len(old) - len(new), len(images.store.skipped))
        if not len(new):
            return index, done
        vectors = embed_images(model, images.store, new, batch)
        ids, labels = ([words[row] for row in new] for words in (images.ids, images.labels))
        index = index.extended(vectors, ids, labels, images.fingerprints[new])
        calibrate = max(len(index.clean), CALIBRATED_ON) if len(index.clean) else 0
        index = _calibrated(index, model, images, new, vectors, calibrate)
        if processes.main:
            write_index(folder, index, replaces=manifest)
    return index, done


def model_of(
    folder: Path, index: Index, model: Embedder | None, device: torch.device | str, trust_code: bool = False
) -> Embedder:
    """The model given, or the one inside an index, once it is known to be the one that made the index."""
    if model is None:
        if not (folder / MODEL).is_dir():
            name = index.model.reference or "which has no name"
            raise SearchError(f"the model of {folder}, {name}, is not inside; give it with --model")
        model = load_model(str(folder / MODEL), trust_code=trust_code).to(device)
    refuse_other_model(model.eval(), index.model)
    return model


class _Images:
    """Images on their way into an index, each with a name of its own."""

    def __init__(self, model: Embedder, table: ImageTable, batch: int, skip_bad: bool) -> None:
        self.store = ImageStore(table, model.view, model.mean.device, used_once(), skip_bad, once=True)
        self.batch = batch
        table = self.store.table
        twin, times = Counter(table.ids).most_common(1)[0]
        if times > 1:
            raise SearchError(f"{times} images are called '{twin}'; an index needs a name for each")
        self.ids, self.labels = table.ids, [table.class_names[label] for label in table.labels]
        self.fingerprints = fingerprint_images(self.store, batch)


def _calibrated(index: Index, model: Embedder, images: _Images, rows: Rows, vectors: Vectors, count: int) -> Index:
    """The index with statistics of a seeded choice of `count` of these rows, each searched among the others."""
    if count == 0:
        return index
    draw = np.random.default_rng(seeds.derive(index.seed, "calibrate", len(index)))
    old = index.clean
    # Of old and new images as many as there are of each, so that the sample stays one of the whole index.
    fresh = count if not len(old) else max(1, round(count * len(rows) / len(index)))
    chosen = np.sort(draw.permutation(len(rows))[:fresh])
    what = f"{index.copies} changed copies of {len(chosen):,} of {len(rows):,} images"
    console.say(f"marks for tampered queries: {what}; --calibrate sets how many")
    moves = measure_moves(model, images.store, rows[chosen], vectors[chosen], images.batch, index.seed, index.copies)
    found = statistics(index, vectors[chosen], moves, images.fingerprints[rows[chosen]])
    kept = draw.permutation(old)[: count - len(found)]
    return dataclasses.replace(index, clean=np.concatenate([kept, found]))
