"""From a model and images to an index, and more images into one."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from holdfast.data import ImageTable
from holdfast.errors import ModelError, SearchError
from holdfast.files import new_folder
from holdfast.locks import locked
from holdfast.models import Embedder, load_model
from holdfast.processes import current_processes
from holdfast.robustness import excerpt
from holdfast.search.collection import Collection, check_place, name_for
from holdfast.search.embedding import fingerprints_of, model_facts, refuse_other_model
from holdfast.search.filling import Added, ComingImages, filled
from holdfast.search.index import Index, IndexedImages, ModelFacts, Thresholds
from holdfast.search.kinds import MILVUS, kind_for
from holdfast.search.memory import MemoryIndex
from holdfast.search.milvus import MilvusIndex
from holdfast.search.store import MODEL, read_index, read_manifest, write_index

LOCK = ".lock"
CALIBRATED_ON = 600
"""Images whose statistics stand for clean queries; at one false alarm in a hundred, six of them are beyond."""


def create_index(
    folder: Path,
    model: Embedder,
    table: ImageTable,
    *,
    reference: str = "",
    kind: str | None = None,
    milvus: str | None = None,
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
        kind: flat, ivf, hnsw or milvus; by the number of images when left out.
        milvus: where Milvus is, for an index of that kind: a file that ends in `.db`, or an address.
        calibrate: how many images, at most, show what clean queries look like; 0 for none.
        batch: images per pass.
        seed: of everything random.
        skip_bad: leave unreadable images out.
        audits: of the model, as `run_folder.RunFiles.current_audits` holds them; the index keeps what they found.
        thresholds: of the model, at which two images show the same; the index keeps them.
    """
    kind = kind_for(len(table), kind)
    check_milvus(kind, milvus)
    processes = current_processes()
    with ExitStack() as stack:

        def hold(file: Path) -> None:
            stack.enter_context(locked(file, f"the index {folder}"))

        def begin() -> None:
            # The lock lies beside the folder, which is moved into its place when it is whole.
            hold(folder.with_name(f".{folder.name}{LOCK}"))
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise SearchError(f"{folder} is there already; add to an index with --add, or give another --out")

        processes.tell(begin)
        images = ComingImages(model.eval(), table, batch, skip_bad)
        facts = dataclasses.replace(model_facts(model, reference), audit=excerpt(audits), thresholds=thresholds)
        index: Index
        if milvus is None:
            nothing = IndexedImages([], [], [], fingerprints_of([]))
            none = np.empty((0, facts.probe.shape[1]), np.float32)
            index = MemoryIndex(none, nothing, model=facts, kind=kind, seed=seed)
        else:
            index = _begun(folder, model, milvus, facts, seed, calibrate)
            processes.tell(partial(hold, folder / LOCK))
        index, added = filled(index, model, images, calibrate)
        if milvus is None:
            processes.tell(partial(_write_new, folder, model, index))
        else:
            processes.tell(lambda: write_index(folder, index, replaces=read_manifest(folder)))
    return index, added


def check_milvus(kind: str, milvus: str | None) -> None:
    """Refuse a kind without its Milvus, or a Milvus that nothing would be put into."""
    if kind == MILVUS:
        if milvus is None:
            raise SearchError("say where Milvus is: --milvus FILE.db, or --milvus http://HOST:19530")
        check_place(milvus)
    elif milvus is not None:
        raise SearchError(f"--milvus has no effect on an index of kind {kind}; leave it out, or give --kind {MILVUS}")


def _begun(folder: Path, model: Embedder, place: str, facts: ModelFacts, seed: int, calibrate: int) -> Index:
    """An index in Milvus that holds nothing yet. Its folder comes first, so that filling it can be taken up again."""
    named = os.fsencode(folder.name)  # of which a collection's name cannot show every letter
    mark = hashlib.blake2b(named + facts.weights.encode() + facts.probe.tobytes()).hexdigest()
    collection = Collection(place, name_for(folder, mark), facts.probe.shape[1])
    index = MilvusIndex(collection, model=facts, kind=MILVUS, seed=seed, unfinished=calibrate)

    def begin() -> None:
        collection.create()
        _write_new(folder, model, index)

    current_processes().tell(begin)
    return index


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
    milvus: str | None = None,
    device: torch.device | str = "cpu",
    batch: int = 256,
    skip_bad: bool = False,
    trust_code: bool = False,
) -> tuple[Index, Added]:
    """Add images to the index of a folder; those that are in it already, and have not changed, are skipped.

    Args:
        folder: of the index. Until the very end it stays as it is; what Milvus holds grows block by block.
        table: the images.
        model: the one that made the index; the one inside it when left out.
        milvus: where Milvus is, for an index of that kind.
        device: where the model inside runs.
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
        index = read_index(folder, manifest, milvus)
        model = model_of(folder, index, model, device, trust_code)
        images = ComingImages(model, table, batch, skip_bad)
        wanted = max(len(index.clean), CALIBRATED_ON) if len(index.clean) else 0
        grown, added = filled(index, model, images, wanted if index.unfinished is None else index.unfinished)
        if grown is not index:
            processes.tell(lambda: write_index(folder, grown, replaces=manifest))
    return grown, added


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
