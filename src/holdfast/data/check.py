"""What is wrong with a dataset, and how to mend it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.data.duplicates import THUMBNAIL, near_duplicates, to_grey
from holdfast.data.readers.base import Reader
from holdfast.data.skipped import counted, extensions, few
from holdfast.data.store import WORKERS, chunks
from holdfast.data.table import SPLITS, ImageTable, Integers
from holdfast.errors import one_line
from holdfast.view import View

Kind = Literal[
    "missing-file",
    "unreadable-image",
    "single-image-class",
    "shared-label",
    "query-without-match",
    "near-duplicate",
    "ignored-file",
    "listed-twice",
]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Args:
        kind: which of the checker's questions it answers.
        what: one line that names the first cases.
        how_to_mend: one line.
        rows: the rows of the table it concerns; empty for files that are not in the table.
    """

    kind: Kind
    what: str
    how_to_mend: str
    rows: list[int]


def check(data: ImageTable | Reader) -> list[Problem]:
    """Look at every image and label of a dataset; an empty list means that nothing is wrong.

    Args:
        data: a table, or a reader, whose missing files are then a problem among the others.
    """
    if isinstance(data, Reader):
        data = replace(data, skip_bad=True).table()
    return [*_files(data), *_twice(data), *_classes(data), *_splits(data), *_queries(data), *_images(data)]


def _files(table: ImageTable) -> Iterator[Problem]:
    others, unplaced = table.skipped_files.no_images, table.skipped_files.unplaced
    if others:
        yield Problem(
            "ignored-file",
            f"{counted(others, 'file')} skipped: no image by extension ({extensions(others)})",
            "save images in another format (jpg, png, webp, bmp, gif, tif); let the rest be",
            [],
        )
    if unplaced:
        yield Problem(
            "ignored-file",
            f"{counted(unplaced, 'image')} skipped: in no class folder or list ({few(unplaced)})",
            "move them into a folder named after their class, add them to the list, or let them be",
            [],
        )


def _twice(table: ImageTable) -> Iterator[Problem]:
    counts = Counter(table.ids)
    rows = [row for row, name in enumerate(table.ids) if counts[name] > 1]
    if rows:
        names = list(dict.fromkeys(table.ids[row] for row in rows))
        yield Problem(
            "listed-twice",
            f"{counted(names, 'file')} listed more than once ({_few(names)})",
            "keep one line of each: an image that is its own match is always found",
            rows,
        )


def _classes(table: ImageTable) -> Iterator[Problem]:
    for split in ("train", "val", "test"):
        rows = np.flatnonzero(table.splits == split)
        labels, first, counts = np.unique(table.labels[rows], return_index=True, return_counts=True)
        if (counts == 1).any():
            names = [table.class_names[label] for label in labels[counts == 1]]
            yield Problem(
                "single-image-class",
                f"{len(names):,} classes have one image in '{split}' ({_few(names)})",
                "add a second image or remove the class: a lone image has no match",
                rows[first[counts == 1]].tolist(),
            )


def _splits(table: ImageTable) -> Iterator[Problem]:
    learnt = np.isin(table.splits, ("train", "val"))
    shared = np.intersect1d(table.labels[learnt], table.labels[~learnt])
    if len(shared):
        yield Problem(
            "shared-label",
            f"{len(shared):,} labels are both in train or val and in test, query or gallery "
            f"({_few([table.class_names[label] for label in shared])})",
            "give each class to one side only: retrieval is measured on classes that training has not seen",
            np.flatnonzero(np.isin(table.labels, shared)).tolist(),
        )
    both = np.intersect1d(table.labels[table.splits == "train"], table.labels[table.splits == "val"])
    if len(both):
        yield Problem(
            "shared-label",
            f"{len(both):,} labels are both in train and in val ({_few([table.class_names[label] for label in both])})",
            "give each class to one side only, or leave val out and let 'validation' choose classes",
            np.flatnonzero(np.isin(table.labels, both) & learnt).tolist(),
        )


def _queries(table: ImageTable) -> Iterator[Problem]:
    queries = np.flatnonzero(table.splits == "query")
    groups = table.groups if table.groups is not None else -np.arange(len(table))
    seen: dict[int, set[int]] = defaultdict(set)
    for row in np.flatnonzero(table.splits == "gallery"):
        seen[int(table.labels[row])].add(int(groups[row]))
    lost = [int(row) for row in queries if not seen[int(table.labels[row])] - {int(groups[row])}]
    if lost:
        yield Problem(
            "query-without-match",
            f"{len(lost):,} queries have no match in the gallery ({_few([table.ids[row] for row in lost])})",
            "add gallery images of their label (of another group, where there are groups) or remove the queries",
            lost,
        )


def _images(table: ImageTable) -> Iterator[Problem]:
    """Problems that need the pixels: every image is decoded once."""
    missing: list[int] = []
    unreadable: list[int] = []
    rows: list[Integers] = []
    thumbnails: list[NDArray[np.uint8]] = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for good, pixels, bad in chunks(table, View(THUMBNAIL, fit="squash"), pool):
            rows.append(good)
            thumbnails.extend(to_grey(image) for image in pixels)
            for row, error in bad.items():
                (missing if error.missing else unreadable).append(row)
    if missing:
        what = f"{len(missing):,} files are missing ({_few([table.ids[row] for row in missing])})"
        yield Problem("missing-file", what, "add the files or remove them from the list; --skip-bad goes on", missing)
    if unreadable:
        what = f"{len(unreadable):,} images cannot be read ({_few([table.ids[row] for row in unreadable])})"
        yield Problem("unreadable-image", what, "replace or remove the files; --skip-bad goes on", unreadable)
    if thumbnails:
        yield from _duplicates(table, np.concatenate(rows), np.stack(thumbnails))


def _duplicates(table: ImageTable, rows: Integers, thumbnails: NDArray[np.uint8]) -> Iterator[Problem]:
    splits = table.splits[rows]
    for i, one in enumerate(SPLITS):
        for other in SPLITS[i + 1 :]:
            mine, theirs = np.flatnonzero(splits == one), np.flatnonzero(splits == other)
            pairs = near_duplicates(thumbnails[mine], thumbnails[theirs])
            if len(pairs) == 0:
                continue
            a, b = rows[mine[pairs[:, 0]]], rows[theirs[pairs[:, 1]]]
            yield Problem(
                "near-duplicate",
                f"{len(np.unique(b)):,} images of '{other}' look the same as one of '{one}' "
                f"({one_line(table.ids[a[0]])} and {one_line(table.ids[b[0]])})",
                "keep all copies of an image in one split",
                np.unique(np.concatenate((a, b))).tolist(),
            )


def _few(names: list[str]) -> str:
    return few(names, 3)
