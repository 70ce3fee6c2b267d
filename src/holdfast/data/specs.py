"""Datasets by name: `glyphs`, `folder:DIR`, or a recipe's `data` block."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.config import instantiate
from holdfast.data.reader import Reader, registry
from holdfast.data.table import ImageTable
from holdfast.errors import DataError


def parse(spec: str | Mapping[str, Any]) -> dict[str, Any]:
    """The plain block of a dataset: `"cub:DIR"` becomes `{"name": "cub", "root": "DIR"}`."""
    if not isinstance(spec, str):
        return dict(spec)
    name, colon, path = spec.partition(":")
    field = _path_field(typing.cast(type[Reader], registry.get(name)))
    if field is None:
        if colon:
            raise DataError(f"dataset '{name}' takes no path; write just '{name}'")
        return {"name": name}
    if not path:
        raise DataError(f"dataset '{name}' needs a path; write '{name}:PATH'")
    return {"name": name, field: path}


def load(spec: str | Mapping[str, Any], **overrides: Any) -> ImageTable:
    """The table of a dataset.

    Args:
        spec: a name (`"glyphs"`), a name and a path (`"folder:DIR"`) or a block (`{"name": "cub", "root": DIR}`).
        overrides: further fields of the reader, such as `validation=0`.
    """
    block = {**parse(spec), **overrides}
    reader: Reader = instantiate(Reader, block, where="dataset")
    return reader.table()


def from_folder(root: str | Path, **fields: Any) -> ImageTable:
    """The table of a folder or zip file with one sub-folder per class; `fields` as in the reader `folder`."""
    return load({"name": "folder", "root": str(root)}, **fields)


def from_csv(file: str | Path, **fields: Any) -> ImageTable:
    """The table that a CSV file lists; `fields` as in the reader `csv`."""
    return load({"name": "csv", "file": str(file)}, **fields)


def _path_field(reader: type[Reader]) -> str | None:
    """The reader's first field of its own, if it is text."""
    common = {field.name for field in dataclasses.fields(Reader)}
    own = next((field.name for field in dataclasses.fields(reader) if field.name not in common), None)
    return own if own is not None and typing.get_type_hints(reader)[own] is str else None
