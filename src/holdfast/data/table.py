"""A table of images: where each comes from, what it shows, which split it belongs to, and which files were left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from holdfast.data.ragged import RaggedImages
from holdfast.data.sources import BadImage, ImageSource
from holdfast.errors import DataError, one_line, plural, unknown
from holdfast.seeds import derive
from holdfast.view import View

COLUMNS = ("positions", "labels", "splits", "coarse", "groups")
"""Arrays of a table with an entry for each row; the last two are not in every table."""
SPLITS = ("train", "val", "test", "query", "gallery")

Level = Literal["fine", "coarse"]
Integers = NDArray[np.int64]

LOOKED_AT = 64
"""Images whose sizes stand for those of all."""

SHOWN = 2
"""Names that stand for the rest."""

KINDS_SHOWN = 3
"""Extensions that are counted one by one."""


@dataclass(frozen=True)
class SkippedFiles:
    """What a reader left out of its table, by the reason.

    Args:
        no_images: files whose extension is not one of an image.
        unplaced: images in no class folder, or that no list names.
        links: links that lead out of the folder.
        unnamed: files and folders whose names are not in UTF-8.
        hidden: hidden files and folders and those that systems leave behind (.DS_Store, Thumbs.db).
    """

    no_images: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything was left out that a person may have meant to be read."""
        return bool(self.no_images or self.unplaced or self.links or self.unnamed)

    def lines(self) -> list[str]:
        """One line for each reason: how many files, and a few of them."""
        said = [
            f"{counted(self.no_images, 'file')} no image by extension ({extensions(self.no_images)})",
            f"{counted(self.unplaced, 'image')} in no class folder or list ({few(self.unplaced)})",
            f"{counted(self.links, 'link')} not followed: out of the folder ({few(self.links)})",
            f"{counted(self.unnamed, 'name')} not in UTF-8 ({few(self.unnamed)})",
            f"{counted(self.hidden, 'file')} hidden or of the system ({few(self.hidden)})",
        ]
        return [line for line, names in zip(said, vars(self).values(), strict=True) if names]

    def __str__(self) -> str:
        return "; ".join(self.lines()) or "nothing"

    def counts(self) -> dict[str, int]:
        """How many of each."""
        return {name: len(names) for name, names in vars(self).items()}


NOTHING = SkippedFiles()


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageTable:
    """Images with labels and splits; nothing is decoded before it is read, and nothing changes in place.

    Args:
        source: the images.
        positions: which image of the source each row shows, so that a subset copies no pixels.
        labels: fine label of each row, an index into `class_names`.
        class_names: name of each fine class of the whole dataset; a subset keeps them all.
        splits: "train", "val", "test", "query" or "gallery" for each row.
        ids: a name for each row that stays the same from run to run (relative path, member or index).
        name: of the dataset.
        coarse: coarse label of each row, an index into `coarse_names`.
        coarse_names: name of each coarse class.
        groups: such as the camera of each row, an index into `group_names`: in re-identification an image is no match
            for a query of its own group.
        group_names: name of each group.
        skipped_files: files where the whole dataset lies that are no part of it.
    """

    source: ImageSource
    positions: Integers
    labels: Integers
    class_names: list[str]
    splits: NDArray[np.str_]
    ids: list[str]
    name: str
    coarse: Integers | None = None
    coarse_names: list[str] | None = None
    groups: Integers | None = None
    group_names: list[str] | None = None
    skipped_files: SkippedFiles = NOTHING

    def __post_init__(self) -> None:
        for name, column in self._columns().items():
            if len(column) != len(self.ids):
                raise ValueError(f"'{name}' has {len(column)} rows, 'ids' {len(self.ids)}")
            locked = column.view()  # the caller's own array stays as it is
            locked.flags.writeable = False
            object.__setattr__(self, name, locked)
        for split in np.unique(self.splits):
            if split not in SPLITS:
                raise DataError(unknown("split", str(split), SPLITS))

    def sizes(self) -> list[tuple[int, int]]:
        """Width and height of some images, the same ones at each call, without those that cannot be read."""
        found = []
        for row in np.random.default_rng(derive(0, "sizes")).permutation(len(self))[:LOOKED_AT]:
            with suppress(BadImage):  # whoever reads the table will say so
                found.append(self.source.size(int(self.positions[row])))
        return found

    @classmethod
    def of(
        cls,
        source: ImageSource,
        *,
        classes: Sequence[str],
        splits: ArrayLike,
        ids: Sequence[str],
        name: str,
        coarse: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        skipped_files: SkippedFiles = NOTHING,
    ) -> ImageTable:
        """A table of a whole source from names; labels count the names in order of first appearance."""
        labels, class_names = _numbered(classes)
        coarse_labels, coarse_names = _numbered(coarse) if coarse is not None else (None, None)
        group_numbers, group_names = _numbered(groups) if groups is not None else (None, None)
        return cls(
            source=source,
            positions=np.arange(len(source)),
            labels=labels,
            class_names=class_names,
            splits=np.array(splits, dtype=np.str_),
            ids=list(ids),
            name=name,
            coarse=coarse_labels,
            coarse_names=coarse_names,
            groups=group_numbers,
            group_names=group_names,
            skipped_files=skipped_files,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"ImageTable({self.name}: {self.describe()})"

    def describe(self) -> str:
        """How many images of how many classes there are, and in which splits."""
        counts = ", ".join(f"{s} {n:,}" for s in SPLITS if (n := int((self.splits == s).sum())))
        return f"{plural(len(self), 'image')} of {plural(len(np.unique(self.labels)), 'class')}; {counts}"

    def subset(self, rows: ArrayLike | Tensor) -> ImageTable:
        """The given rows (indices, or one boolean per row) as a table of their own."""
        chosen = _array(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
        columns: dict[str, Any] = {name: column[chosen] for name, column in self._columns().items()}
        return replace(self, ids=[self.ids[i] for i in chosen], **columns)

    def _columns(self) -> dict[str, NDArray[Any]]:
        return {name: column for name in COLUMNS if (column := getattr(self, name)) is not None}

    def has(self, split: str) -> bool:
        """Whether any row belongs to a split."""
        return bool((self.splits == split).any())

    def split(self, split: str) -> ImageTable:
        """The rows of one split, or every row where it is "all"."""
        if split == "all":
            return self
        if split not in SPLITS:
            raise DataError(unknown("split", split, [*SPLITS, "all"]))
        if not self.has(split):
            there = ", ".join(s for s in SPLITS if self.has(s))
            raise DataError(f"dataset '{self.name}' has no '{split}' images; it has: {there}")
        return self.subset(self.splits == split)

    def with_splits(self, splits: NDArray[np.str_]) -> ImageTable:
        """The same rows under other splits."""
        return replace(self, splits=splits)

    def read(self, rows: ArrayLike | Tensor, view: View) -> RaggedImages:
        """Pixels of some rows, resized for a view."""
        return RaggedImages.of(self.source.images(self.positions[_array(rows).astype(np.int64)], view))

    @property
    def labelled(self) -> bool:
        """Whether classes are known."""
        return self.class_names != [""]

    def labels_for(self, level: Level) -> Integers:
        """Fine or coarse label of each row."""
        if level == "fine":
            return self.labels
        if self.coarse is None:
            raise DataError(f"dataset '{self.name}' has no coarse labels; use fine ones")
        return self.coarse

    def compacted(self, level: Level) -> Integers:
        """Labels renumbered 0..C-1 within this table, as losses with one parameter per class need."""
        return np.unique(self.labels_for(level), return_inverse=True)[1].astype(np.int64)


def _array(rows: ArrayLike | Tensor) -> NDArray[Any]:
    return np.asarray(rows.cpu() if isinstance(rows, Tensor) else rows)


def _numbered(names: Iterable[str]) -> tuple[Integers, list[str]]:
    number: dict[str, int] = {}
    labels = np.array([number.setdefault(n, len(number)) for n in names], np.int64)
    return labels, list(number)


def counted(names: Sized, noun: str) -> str:
    """Such as 1 file is, 2 files are."""
    return f"{plural(len(names), noun)} {'is' if len(names) == 1 else 'are'}"


def extensions(names: Sequence[str]) -> str:
    """How many files of each extension, the most frequent first, and one of them by name."""
    kinds = Counter(PurePosixPath(name).suffix.lower()[:20] or "no extension" for name in names)
    shown = kinds.most_common(KINDS_SHOWN)
    parts = [f"{one_line(kind)} {count:,}" for kind, count in shown]
    rest = len(names) - sum(count for _, count in shown)
    return f"{', '.join([*parts, f'others {rest:,}'] if rest else parts)}: {few(names)}"


def few(names: Sequence[str], most: int = SHOWN) -> str:
    """The first names, as text that a terminal only shows."""
    return ", ".join(one_line(name) for name in names[:most]) + (", ..." if len(names) > most else "")
