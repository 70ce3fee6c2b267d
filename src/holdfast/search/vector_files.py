"""Vectors as a file, for other tools."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from holdfast.data import ImageTable
from holdfast.errors import HoldfastError, SearchError
from holdfast.files import write_atomic


def check_format(file: Path) -> Path:
    """The file, with `.npz` where it names no format; refused, before any work is done, if it cannot be written."""
    if not file.name:
        raise SearchError(f"'{file}' is the name of no file; give another --out")
    if not file.suffix:
        file = file.with_name(f"{file.name}.npz")
    if file.suffix not in WRITERS:
        raise SearchError(f"vectors are written as {' or '.join(WRITERS)}, not '{file.suffix}'; give another --out")
    if file.suffix == ".parquet":
        _pyarrow()
    return file


def save_vectors(file: Path, vectors: Tensor, table: ImageTable) -> Path:
    """Embeddings with ids, labels and splits; the file that was written.

    `.npz` is compressed and holds no pickled objects; `.parquet` has one row per image and the vector as a list.
    """
    file = check_format(file)
    columns = {
        "ids": np.array(table.ids, np.str_),
        "labels": table.labels,
        "label_names": np.array([table.class_names[label] for label in table.labels], np.str_),
        "splits": table.splits.astype(np.str_),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    WRITERS[file.suffix](content, vectors.float().numpy(), columns)
    write_atomic(file, content.getvalue())
    return file


def _npz(out: io.BytesIO, vectors: Any, columns: dict[str, Any]) -> None:
    np.savez_compressed(out, vectors=vectors, **columns)


def _parquet(out: io.BytesIO, vectors: Any, columns: dict[str, Any]) -> None:
    arrow, parquet = _pyarrow()
    lists = arrow.FixedSizeListArray.from_arrays(arrow.array(vectors.reshape(-1)), vectors.shape[1])
    plain = {name: arrow.array(column) for name, column in columns.items()}
    parquet.write_table(arrow.table({**plain, "vectors": lists}), out)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise HoldfastError("parquet needs pyarrow: pip install 'holdfast[parquet]', or write .npz") from error
    return pyarrow, parquet


WRITERS: dict[str, Callable[[io.BytesIO, Any, dict[str, Any]], None]] = {".npz": _npz, ".parquet": _parquet}
