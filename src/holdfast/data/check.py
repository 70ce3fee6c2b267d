"""What is wrong with a dataset, and how to mend it."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from holdfast.data.decoding import chunks
from holdfast.data.formats import needed
from holdfast.data.readers.base import Reader
from holdfast.data.splits import FEWEST_CLASSES, FEWEST_TRAINING, FEWEST_VALIDATION, to_hold_out
from holdfast.data.table import SPLITS, ImageTable, Integers, SkippedFiles, counted, few
from holdfast.data.workers import default_workers
from holdfast.errors import one_line, plural
from holdfast.run_files import FEW_CLASSES, FEW_IMAGES
from holdfast.view import View

THUMBNAIL = 32
"""Side of the images that candidates are compared at."""
DISTANCE = 2
"""Bits of the 64 in which the hashes of two candidates may differ."""
CORRELATION = 0.985
"""Candidates whose thumbnails correlate less are different images with the same coarse outline."""
CONTRAST = 2.0
"""Grey levels by which a cell must be brighter than its neighbour: flat areas must not hash their noise."""
CHUNK, VERIFIED_AT_ONCE = 1024, 16384


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Args:
        kind: in one word, such as `missing-file`.
        what: one line that names the first cases.
        how_to_mend: one line.
        rows: the rows of the table it concerns; empty for files that are not in the table.
    """

    kind: str
    what: str
    how_to_mend: str
    rows: list[int]

    @property
    def serious(self) -> bool:
        """Whether images of the dataset cannot be used at all."""
        return self.kind in ("bad-name", "missing-file", "unreadable-image")


def check(data: ImageTable | Reader) -> list[Problem]:
    """Look at every image and label of a dataset; an empty list means that nothing is wrong.

    Args:
        data: a table, or a reader, whose missing files are then a problem among the others.
    """
    if isinstance(data, Reader):
        data = replace(data, skip_bad=True).table()
    labels = [*_twice(data), *_classes(data), *_validation(data), *_splits(data), *_queries(data)]
    return [*_files(data), *labels, *_images(data)]


def _files(table: ImageTable) -> Iterator[Problem]:
    known = needed(table.skipped_files.no_images)
    other = f"{known}, or save them as jpg" if known else "save images as jpg, png, webp, bmp, gif or tif"
    follow = "--data '{name: folder, root: DIR, follow_links: true}'"
    mends = {
        "no_images": ("ignored-file", f"{other}; let the rest be"),
        "unplaced": ("ignored-file", "move them into a folder named after their class, or add them to the list"),
        "links": ("link-out", f"put the files themselves there, or follow the links: {follow}"),
        "unnamed": ("bad-name", "give other names; until then --skip-bad leaves these out"),
    }
    for reason, (kind, mend) in mends.items():
        for line in SkippedFiles(**{reason: getattr(table.skipped_files, reason)}).lines():
            yield Problem(kind, line, mend, [])


def _twice(table: ImageTable) -> Iterator[Problem]:
    counts = Counter(table.ids)
    rows = [row for row, name in enumerate(table.ids) if counts[name] > 1]
    if rows:
        names = list(dict.fromkeys(table.ids[row] for row in rows))
        what = f"{counted(names, 'file')} listed more than once ({few(names, 3)})"
        mend = "keep one line of each: an image that is its own match is always found"
        yield Problem("listed-twice", what, mend, rows)


def _classes(table: ImageTable) -> Iterator[Problem]:
    for split in ("train", "val", "test"):
        rows = np.flatnonzero(table.splits == split)
        labels, first, counts = np.unique(table.labels[rows], return_index=True, return_counts=True)
        single = counts == 1
        if single.any():
            many = f"{plural(int(single.sum()), 'class')} {'has' if single.sum() == 1 else 'have'}"
            what = f"{many} one image in '{split}' ({_few_classes(table, labels[single])})"
            mend = "add a second image or remove the class: a lone image has no match"
            yield Problem("single-image-class", what, mend, rows[first[single]].tolist())


def _validation(table: ImageTable) -> Iterator[Problem]:
    """Whether an epoch can be chosen by the validation classes."""
    rows = np.flatnonzero(table.splits == "val")
    classes, training = (len(np.unique(table.labels[table.splits == split])) for split in ("val", "train"))
    larger = (tenths / 10 for tenths in range(3, 10) if to_hold_out(classes + training, tenths / 10) > classes)
    more = next((f", or hold more out: --set data.validation={fraction}" for fraction in larger), "")
    if 0 < training < FEWEST_CLASSES:
        what = f"{plural(training, 'class')} to train on beside those held out: training needs two"
        yield Problem("too-few-classes", what, "add classes", np.flatnonzero(table.splits == "train").tolist())
    elif len(rows) and (classes < FEW_CLASSES or len(rows) < FEW_IMAGES):
        told = f"{plural(classes, 'class')} with {plural(len(rows), 'image')}"
        what = f"{told} for validation: too few to tell one epoch from the next"
        yield Problem("small-validation", what, f"add classes{more}", rows.tolist())
    elif not len(rows) and 0 < training < FEWEST_TRAINING + FEWEST_VALIDATION:
        what = f"{plural(training, 'class')} to train on: too few to hold any out for validation"
        yield Problem("small-validation", what, "add classes; until then the last epoch is kept", [])


def _splits(table: ImageTable) -> Iterator[Problem]:
    train, val = table.splits == "train", table.splits == "val"
    advice = "retrieval is measured on classes that training has not seen"
    yield from _shared(table, "train or val", train | val, "test, query or gallery", ~(train | val), advice)
    yield from _shared(table, "train", train, "val", val, "or leave val out and let 'validation' choose classes")


def _shared(
    table: ImageTable, one: str, in_one: NDArray[np.bool_], other: str, in_other: NDArray[np.bool_], advice: str
) -> Iterator[Problem]:
    """Labels on both sides of a split, each side with its name and its rows."""
    shared = np.intersect1d(table.labels[in_one], table.labels[in_other])
    if len(shared):
        what = f"{counted(shared, 'label')} both in {one} and in {other} ({_few_classes(table, shared)})"
        rows = np.flatnonzero(np.isin(table.labels, shared) & (in_one | in_other)).tolist()
        yield Problem("shared-label", what, f"give each class to one side only; {advice}", rows)


def _queries(table: ImageTable) -> Iterator[Problem]:
    queries = np.flatnonzero(table.splits == "query")
    groups = table.groups if table.groups is not None else -np.arange(len(table))
    seen: dict[int, set[int]] = defaultdict(set)
    for row in np.flatnonzero(table.splits == "gallery"):
        seen[int(table.labels[row])].add(int(groups[row]))
    lost = [int(row) for row in queries if not seen[int(table.labels[row])] - {int(groups[row])}]
    if lost:
        what = f"{counted(lost, 'query')} without a match in the gallery ({few([table.ids[row] for row in lost], 3)})"
        mend = "add gallery images of their label (of another group, where there are groups) or remove the queries"
        yield Problem("query-without-match", what, mend, lost)


def _images(table: ImageTable) -> Iterator[Problem]:
    """Problems that need the pixels: every image is decoded once."""
    missing: list[int] = []
    unreadable: list[int] = []
    rows: list[Integers] = []
    thumbnails: list[NDArray[np.uint8]] = []
    for good, pixels, bad in chunks(table, View(THUMBNAIL, fit="squash"), default_workers()):
        rows.append(good)
        thumbnails.extend(to_grey(image) for image in pixels)
        for row, error in bad.items():
            (missing if error.missing else unreadable).append(row)
    if missing:
        what = f"{counted(missing, 'file')} missing ({few([table.ids[row] for row in missing], 3)})"
        yield Problem("missing-file", what, "add the files or remove them from the list; --skip-bad goes on", missing)
    if unreadable:
        what = f"{counted(unreadable, 'image')} unreadable ({few([table.ids[row] for row in unreadable], 3)})"
        yield Problem("unreadable-image", what, "replace or remove the files; --skip-bad goes on", unreadable)
    yield from _odd(table)
    if thumbnails:
        yield from _duplicates(table, np.concatenate(rows), np.stack(thumbnails))


def _odd(table: ImageTable) -> Iterator[Problem]:
    """Images that were read with a warning, one problem for each kind of it."""
    warned: dict[str, list[int]] = defaultdict(list)
    for row, position in enumerate(table.positions.tolist()):
        if position in table.source.odd:
            warned[table.source.odd[position]].append(row)
    for words, rows in warned.items():
        what = f"{plural(len(rows), 'image')}: {words} ({few([table.ids[row] for row in rows], 3)})"
        yield Problem("odd-image", what, "save the file again with an image editor, or let it be", rows)


def _duplicates(table: ImageTable, rows: Integers, thumbnails: NDArray[np.uint8]) -> Iterator[Problem]:
    splits = table.splits[rows]
    for one, other in itertools.combinations(SPLITS, 2):
        mine, theirs = np.flatnonzero(splits == one), np.flatnonzero(splits == other)
        pairs = near_duplicates(thumbnails[mine], thumbnails[theirs])
        if len(pairs):
            a, b = rows[mine[pairs[:, 0]]], rows[theirs[pairs[:, 1]]]
            first = f"{one_line(table.ids[a[0]])} and {one_line(table.ids[b[0]])}"
            same = "looks the same" if len(np.unique(b)) == 1 else "look the same"
            what = f"{plural(len(np.unique(b)), 'image')} of '{other}' {same} as one of '{one}' ({first})"
            mend = "keep all copies of an image in one split"
            yield Problem("near-duplicate", what, mend, np.unique(np.concatenate((a, b))).tolist())


def _few_classes(table: ImageTable, labels: Integers) -> str:
    return few([table.class_names[label] for label in labels], 3)


def to_grey(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Brightness of RGB pixels, (..., 3) to (...)."""
    return (pixels @ np.array([0.299, 0.587, 0.114], np.float32)).round().astype(np.uint8)


def hashes(thumbnails: Tensor) -> Tensor:
    """Difference hash: for each of 8 × 8 cells whether its right neighbour is clearly brighter, as ±1, (n, 64)."""
    small = F.interpolate(thumbnails[:, None], (8, 9), mode="bilinear", antialias=True)[:, 0]
    return torch.where(small[:, :, 1:] > small[:, :, :-1] + CONTRAST, 1.0, -1.0).flatten(1)


def near_duplicates(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Pairs (i, j) of near-identical grey thumbnails, i of the first and j of the second array.

    Hashes at most two bits apart make a candidate; it counts if the thumbnails correlate by 0.985, which survives
    recompression, resizing and a change of brightness.
    """
    if not len(first) or not len(second):
        return np.empty((0, 2), np.int64)
    a, b = torch.from_numpy(first).float(), torch.from_numpy(second).float()
    hash_a, hash_b = hashes(a), hashes(b)
    a, b = standardised(a), standardised(b)
    found = [np.empty((0, 2), np.int64)]
    for start in range(0, len(a), CHUNK):
        agreement = hash_a[start : start + CHUNK] @ hash_b.T  # 64 - 2 × differing bits
        candidates = (agreement >= 64 - 2 * DISTANCE).nonzero()
        for part in range(0, len(candidates), VERIFIED_AT_ONCE):
            i, j = candidates[part : part + VERIFIED_AT_ONCE].unbind(1)
            same = (a[start + i] * b[j]).sum(1) >= CORRELATION
            found.append(torch.stack((start + i[same], j[same]), 1).numpy())
    return np.concatenate(found)


def standardised(thumbnails: Tensor) -> Tensor:
    """Each image without its mean and contrast, as a unit vector; a blank one equals every other blank one."""
    flat = thumbnails.flatten(1)
    flat = flat - flat.mean(1, keepdim=True)
    blank = flat.norm(dim=1, keepdim=True) < 1
    return F.normalize(torch.where(blank, torch.ones_like(flat), flat))
