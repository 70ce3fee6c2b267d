"""CSV files: encodings, quotes, NULs, missing columns, huge fields; no row may get lost on the way."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

from fuzzing import Target, Wrong
from mutations import WORDS, damaged_bytes, damaged_text, encoded

from holdfast.data import from_csv
from holdfast.data.table import SPLITS


def _clean(draw: random.Random) -> str:
    """A table as a program would write it."""
    columns = ["path", "label", *draw.sample(("coarse", "split", "group", "remark", "camera"), draw.randint(0, 4))]
    draw.shuffle(columns)
    file = io.StringIO()
    writer = csv.writer(
        file, lineterminator=draw.choice(("\n", "\r\n")), quoting=draw.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    )
    writer.writerow(columns)
    for row in range(draw.randint(0, 12)):
        cells = {
            "path": draw.choice((f"a/{row}.jpg", f"{row}, again.png", f"日本/{row}.jpg")),
            "label": draw.choice(("cat", "dog", 'the "best"', "é,à")),
            "split": draw.choice((*SPLITS, "Train")),
        }
        odd = draw.choice(columns) if draw.random() < 0.05 else None
        writer.writerow(
            [draw.choice(WORDS) if c == odd else cells.get(c, draw.choice(("x", "y", "1"))) for c in columns]
        )
    return file.getvalue()


def _read(draw: random.Random, folder: Path) -> None:
    text = _clean(draw)
    kind = draw.randrange(5)
    if kind >= 2:
        text = damaged_text(text, draw)
    if draw.random() < 0.01:
        text = text.replace("cat", "c" * 200_000)
    content = encoded(text, draw)
    if kind == 4:
        content = damaged_bytes(content, draw)
    file = folder / "list.csv"
    file.write_bytes(content)
    table = from_csv(file, skip_bad=draw.random() < 0.8, validation=0)
    expected = _rows(content)
    found = [(name, table.class_names[label]) for name, label in zip(table.ids, table.labels, strict=True)]
    if found != expected:
        raise Wrong(f"{len(expected)} rows in the file, {len(found)} in the table, or others: {expected} {found}")


def _rows(content: bytes) -> list[tuple[str, str]]:
    """Path and label of every line that holds anything, read the plain way."""
    lines = [
        row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), skipinitialspace=True) if row
    ]
    header = [name.strip() for name in lines[0]]
    path, label = header.index("path"), header.index("label")
    quoted = b'"' in content
    physical = sum(bool(line) for line in io.StringIO(content.decode("utf-8-sig")).read().split("\n"))
    if not quoted and len(lines) != physical:
        raise Wrong(f"{physical} lines are {len(lines)} rows")
    return [(row[path].strip(), row[label].strip()) for row in lines[1:]]


TARGETS = (Target("csv", _read, 200),)
