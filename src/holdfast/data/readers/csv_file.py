"""Images listed in a CSV file."""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass
from pathlib import Path

from holdfast.data.readers.base import Reader, check_fraction, register
from holdfast.data.sources import FileSource
from holdfast.data.splits import zero_shot
from holdfast.data.table import SPLITS, ImageTable
from holdfast.data.tree import refuse_missing, user_path
from holdfast.errors import DataError, unknown
from holdfast.files import kind_of

REQUIRED = ("path", "label")
OPTIONAL = ("coarse", "split", "group")
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}


@register("csv")
@dataclass(frozen=True, kw_only=True)
class CsvFile(Reader):
    """A CSV file with the columns `path` and `label`, and optionally `coarse`, `split` and `group`.

    Paths are relative to the CSV file. `split` is train, val, test, query or gallery; without that column whole
    classes are held out for testing. `group` is what makes two images too easy a match, such as their camera: in
    re-identification, images with the label and the group of the query do not count. Other columns are skipped.

    Args:
        file: the CSV file, in UTF-8, with a header line; semicolons or tabs between cells are noticed.
        test: fraction of the classes to hold out for testing where there is no `split` column; 1 tests on everything.
        test_seed: of that choice.

    Requirements: two or more labels; no empty cell in these columns.
    Relations: `folder` where class folders say it all.
    """

    file: str
    test: float = 0.5
    test_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("test", self.test)

    def read(self) -> ImageTable:
        """The listed images."""
        path = user_path(self.file)
        columns = _columns(path)
        if not self.skip_bad:
            refuse_missing([name for name in columns["path"] if kind_of(path.parent / name) != "file"], self.file)
        if len(set(columns["label"])) < 2:
            raise DataError(f"'{self.file}' holds fewer than two labels; add images of another class")
        return ImageTable.of(
            FileSource([path.parent / name for name in columns["path"]]),
            classes=columns["label"],
            splits=columns.get("split") or zero_shot(columns["label"], self.test, self.test_seed),
            ids=columns["path"],
            name="csv",
            coarse=columns.get("coarse"),
            groups=columns.get("group"),
        )


def _columns(path: Path) -> dict[str, list[str]]:
    """Known column → its cells."""
    if kind_of(path) != "file":
        raise DataError(f"there is no file '{path}'; give a CSV file with the columns path and label")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            # Strict: a quote that is never closed would swallow every row after it.
            separator = _separator(file.readline())
            file.seek(0)
            reader = csv.DictReader(file, delimiter=separator, skipinitialspace=True, strict=True)
            header = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = header
            known = _known(header, path)
            rows = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"'{path}' is not a CSV file in UTF-8 ({error}); save it as one") from error
    for line, row in rows:
        if None in row:  # an unquoted comma moves every cell after it
            told = f"more cells than columns; put a cell with {SEPARATORS[separator]} in quotes"
            raise DataError(f"'{path}' line {line}: {told}")
    columns = {name: [_cell(row, name, line, path) for line, row in rows] for name in known}
    if "split" in columns:
        columns["split"] = [cell.lower() for cell in columns["split"]]
        for (line, _), cell in zip(rows, columns["split"], strict=True):
            if cell not in SPLITS:
                raise DataError(f"'{path}' line {line}: " + unknown("split", cell, SPLITS))
    return columns


def _separator(header: str) -> str:
    """What stands between the cells of a header; spreadsheets in half of Europe write semicolons."""
    return max(SEPARATORS, key=header.count)


def _known(header: list[str], path: Path) -> list[str]:
    """The columns to read; a misspelt one is refused rather than ignored."""
    others = [name for name in header if name not in REQUIRED + OPTIONAL]
    for name in others:
        wanted = [w for w in REQUIRED + OPTIONAL if w not in header]
        close = difflib.get_close_matches(name.lower(), wanted, n=1, cutoff=0.6)
        if close:
            raise DataError(f"'{path}' has an unknown column '{name}'; did you mean '{close[0]}'?")
    twice = next((name for name in REQUIRED + OPTIONAL if header.count(name) > 1), None)
    if twice:
        raise DataError(f"'{path}' has two columns '{twice}'; take one out")
    for name in REQUIRED:
        if name not in header:
            raise DataError(f"'{path}' has no column '{name}'; its header must name it, got: {', '.join(header)}")
    return [name for name in REQUIRED + OPTIONAL if name in header]


def _cell(row: dict[str, str | None], name: str, line: int, path: Path) -> str:
    cell = (row[name] or "").strip()
    if "\n" in cell or "\r" in cell:
        raise DataError(f"'{path}' line {line}: a cell of '{name}' goes over several lines; check its quotes")
    if not cell:
        raise DataError(f"'{path}' line {line}: '{name}' is empty; fill it in or remove the line")
    return cell
