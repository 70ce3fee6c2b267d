"""Images into an index, block by block, and what clean queries of it look like."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast import console, seeds
from holdfast.data import ImageStore, ImageTable
from holdfast.errors import SearchError
from holdfast.evaluation import used_once
from holdfast.models import Embedder
from holdfast.processes import current_processes
from holdfast.search.embedding import embed_images, fingerprint_images, fingerprints_of, measure_moves
from holdfast.search.flat import Rows, Vectors
from holdfast.search.index import Fingerprints, Index, IndexedImages
from holdfast.search.querying import statistics


@dataclasses.dataclass(frozen=True)
class Added:
    """What became of the images given to an index."""

    added: int
    replaced: int
    unchanged: int
    skipped: int


class ComingImages:
    """Images on their way into an index, each with a name of its own."""

    def __init__(self, model: Embedder, table: ImageTable, batch: int, skip_bad: bool) -> None:
        self.store = ImageStore(table, model.view, model.mean.device, used_once(), skip_bad, once=True)
        self.batch = batch
        twin, times = Counter(self.store.table.ids).most_common(1)[0]
        if times > 1:
            raise SearchError(f"{times} images are called '{twin}'; an index needs a name for each")

    def blocks(self, size: int | None) -> Iterator[Rows]:
        """All rows, so many at a time."""
        count = len(self.store)
        for start in range(0, count, size or count):
            yield np.arange(start, min(start + (size or count), count))

    def names(self, rows: Rows) -> list[str]:
        """Of some rows."""
        return [self.store.table.ids[row] for row in rows]

    def told(self, rows: Rows, fingerprints: Fingerprints) -> IndexedImages:
        """What an index keeps of some rows."""
        table, groups = self.store.table, [""] * len(rows)
        if table.groups is not None and table.group_names is not None:
            groups = [table.group_names[group] for group in table.groups[rows]]
        labels = [table.class_names[label] for label in table.labels[rows]]
        return IndexedImages(self.names(rows), labels, groups, fingerprints)


def filled(index: Index, model: Embedder, images: ComingImages, calibrate: int) -> tuple[Index, Added]:
    """The index with images, calibrated anew where any is new, and what became of them.

    Args:
        index: to fill.
        model: the one that made it.
        images: to add.
        calibrate: clean queries that its marks are to rest on, at most.
    """
    states, rows, fingerprints = Counter[str](), [np.empty(0, np.int64)], [fingerprints_of([])]
    empty = len(index) == 0
    for block in images.blocks(index.block):
        known = set() if empty else set(current_processes().tell(partial(_known, index, images.names(block))))
        vectors, told, state = _looked_at(index, model, images, block, known)
        states.update(state.tolist())
        new = np.flatnonzero(state != "same")
        if len(new):
            index = index.extended(vectors, told.subset(new))
        # Of an index that was never finished, those that are in it already have not been calibrated on, either.
        fresh = new if index.unfinished is None else np.arange(len(block))
        rows.append(block[fresh])
        fingerprints.append(told.fingerprints[fresh])
    added = Added(states["new"], states["changed"], states["same"], len(images.store.skipped))
    if not sum(map(len, rows)):
        return index, added
    index.settle()
    return _calibrated(index, model, images, np.concatenate(rows), np.concatenate(fingerprints), calibrate), added


def _known(index: Index, names: Sequence[str]) -> list[str]:
    return list(index.known(names))


def _looked_at(
    index: Index, model: Embedder, images: ComingImages, block: Rows, names: set[str]
) -> tuple[Vectors, IndexedImages, NDArray[np.str_]]:
    """Vectors of those of a block that are new or have changed, what an index keeps of all, and how each stands to it.

    An image whose name is not among those of the index is decoded once; of others, digests say which have changed.
    """
    store, batch = images.store, images.batch
    state = np.full(len(block), "new", "<U7")
    if not names:
        vectors, fingerprints = embed_images(model, store, block, batch)
        return vectors, images.told(block, fingerprints), state
    known = np.array([name in names for name in images.names(block)], bool)
    vectors, fingerprints = np.empty((len(block), index.dim), np.float32), np.empty((len(block), 16), np.uint8)
    fingerprints[known] = fingerprint_images(store, block[known], batch)
    vectors[~known], fingerprints[~known] = embed_images(model, store, block[~known], batch)
    told = images.told(block, fingerprints)
    state[known] = current_processes().tell(partial(index.states, told.subset(np.flatnonzero(known))))
    changed = state == "changed"
    vectors[changed], _ = embed_images(model, store, block[changed], batch)
    return vectors[state != "same"], told, state


def _calibrated(
    index: Index, model: Embedder, images: ComingImages, rows: Rows, fingerprints: Fingerprints, count: int
) -> Index:
    """The index with statistics of a seeded choice of `count` of these rows, each searched among the others."""
    index = dataclasses.replace(index, unfinished=None)
    if count == 0:
        return index
    size, old = len(index), index.clean
    draw = np.random.default_rng(seeds.derive(index.seed, "calibrate", size))
    # Of old and new images as many as there are of each, so that the sample stays one of the whole index.
    fresh = count if not len(old) else max(1, round(count * len(rows) / size))
    chosen = np.sort(draw.permutation(len(rows))[:fresh])
    what = f"{index.copies} changed copies of {len(chosen):,} of {len(rows):,} images"
    console.say(f"marks for tampered queries: {what}; --calibrate sets how many")
    vectors = index.vectors_of(images.names(rows[chosen]))
    moves = measure_moves(model, images.store, rows[chosen], vectors, images.batch, index.seed, index.copies)
    work = partial(statistics, index, vectors, moves, fingerprints[chosen])
    found = np.array(current_processes().tell(lambda: work().tolist()), np.float32)
    kept = draw.permutation(old)[: count - len(found)]
    return dataclasses.replace(index, clean=np.concatenate([kept, found]))
