"""An index as a folder, which no crash damages and from which a stranger's does no harm; vectors as a file.

The folder holds `manifest.json`, one safetensors file of arrays, one JSON file of names and, where it can be packaged,
`model/`. The manifest names the two files by their digests and is replaced in one step: before, the folder is the old
index, afterwards the new one.

What makes a search fast is built from the vectors when it is needed (`index.Structure`). Folders of before hold it too,
as arrays under `structure.`: these are not read, so such a folder opens like any other.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data import ImageTable
from holdfast.errors import HoldfastError, SearchError
from holdfast.files import write_atomic, write_json
from holdfast.run_files import block, parse_json
from holdfast.search.index import CHANGED_COPIES, CHANGED_COPIES_BEFORE, KINDS, STATISTICS, Index, ModelFacts, usable
from holdfast.search.verification import thresholds_of
from holdfast.versions import versions
from holdfast.view import Fit, Interpolation, View

SCHEMA = 1
MANIFEST = "manifest.json"
MODEL = "model"
LARGEST_MANIFEST = 2**20
FACTS = {"kind": str, "images": int, "dim": int, "seed": int, "copies": int}
MODEL_FACTS = {"reference": str, "weights": str, "size": int, "canvas": int}
VIEW_BEFORE = {"fit": "squash", "interpolation": "bilinear"}
"""What an index that does not say was made with."""
FILE = {"arrays": re.compile(r"arrays-[0-9a-f]{32}\.safetensors"), "names": re.compile(r"names-[0-9a-f]{32}\.json")}


def write_index(folder: Path, index: Index, replaces: dict[str, Any] | None = None) -> None:
    """Write an index into a folder.

    Args:
        folder: there already.
        index: what to write.
        replaces: the manifest of the index that was read and extended; refused if the folder holds another by now.
    """
    from safetensors.numpy import save

    arrays: dict[str, NDArray[Any]] = {"vectors": index.vectors, "prints": index.fingerprints, "clean": index.clean}
    content = save({**arrays, "probe": index.model.probe})
    names = json.dumps({"ids": list(index.ids), "labels": list(index.labels)}).encode()
    files = {"arrays": f"arrays-{_digest(content)}.safetensors", "names": f"names-{_digest(names)}.json"}
    write_atomic(folder / files["arrays"], content)
    write_atomic(folder / files["names"], names)
    if replaces is not None and read_manifest(folder) != replaces:
        raise SearchError(f"{folder} was changed by somebody else meanwhile; run the same command again")
    facts = index.model
    manifest = {
        "schema": SCHEMA,
        "kind": index.kind,
        "images": len(index),
        "dim": index.dim,
        **files,
        "model": {
            "reference": facts.reference,
            "weights": facts.weights,
            **dataclasses.asdict(facts.view),
            **({"audit": dict(facts.audit)} if facts.audit else {}),
            "thresholds": [{"far": far, "threshold": distance} for far, distance in facts.thresholds],
        },
        "seed": index.seed,
        "copies": index.copies,
        "versions": versions(),
    }
    write_json(folder / MANIFEST, manifest)
    for old in {(replaces or {}).get(part) for part in FILE} - {None, *files.values()}:
        (folder / str(old)).unlink(missing_ok=True)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The checked manifest of an index whose folder holds only plain files and folders."""
    if not (folder / MANIFEST).is_file():
        raise SearchError(f"there is no index in '{folder}'; make one: holdfast index MODEL --data DATA --out DIR")
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise SearchError(f"{path} is a link or no plain file; an index with such files is not opened")
    if (folder / MANIFEST).stat().st_size > LARGEST_MANIFEST:
        raise damaged(f"{MANIFEST} is too long")
    manifest = _parsed((folder / MANIFEST).read_bytes(), MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise damaged(f"{MANIFEST} is not of schema {SCHEMA}")
    manifest.setdefault("copies", CHANGED_COPIES_BEFORE)
    for part, pattern in FILE.items():
        if not isinstance(manifest.get(part), str) or not pattern.fullmatch(manifest[part]):
            raise damaged(f"{MANIFEST} names no file of {part}")
    for told, facts in ((manifest, FACTS), (manifest.get("model"), MODEL_FACTS)):
        if not isinstance(told, dict) or any(type(told.get(key)) is not kind for key, kind in facts.items()):
            raise damaged(f"{MANIFEST} lacks one of {', '.join(facts)}")
    if manifest["kind"] not in KINDS:
        raise damaged(f"{MANIFEST} names a kind that does not exist")
    if manifest["copies"] not in (CHANGED_COPIES, CHANGED_COPIES_BEFORE):
        raise damaged(f"{MANIFEST} names a number of changed copies that does not exist")
    return manifest


def read_index(folder: Path, manifest: dict[str, Any] | None = None) -> Index:
    """The index of a folder, every part of it checked; nothing is executed, nothing outside the folder is read."""
    manifest = manifest or read_manifest(folder)
    arrays = _arrays(folder / manifest["arrays"])
    names = _parsed(_read(folder / manifest["names"]), manifest["names"])
    vectors, fingerprints, probe, clean = (
        _array(arrays, name, dtype)
        for name, dtype in (("vectors", np.float32), ("prints", np.uint8), ("probe", np.float32), ("clean", np.float32))
    )
    count, dim = manifest["images"], manifest["dim"]
    shapes = (vectors.shape, fingerprints.shape, probe.shape[1:], clean.shape[1:])
    if count < 1 or dim < 1 or shapes != ((count, dim), (count, 16), (dim,), (STATISTICS,)):
        raise damaged("its arrays have other shapes than its manifest says")
    if not all(usable(array).all() for array in (vectors, probe, clean)):
        raise damaged("it holds numbers that are not finite, or too large for any model")
    ids, labels = (_words(names, part, count) for part in ("ids", "labels"))
    if len(set(ids)) != count:
        raise damaged("it names an image twice")
    told = manifest["model"]
    audit, thresholds = block(told, "audit"), thresholds_of(told)
    facts = ModelFacts(told["reference"], told["weights"], _view(told), probe, audit, thresholds)
    return Index(
        vectors, ids, labels, fingerprints, facts, manifest["kind"], manifest["seed"], clean, manifest["copies"]
    )


def damaged(what: str) -> SearchError:
    """One line on a folder that no index was written as."""
    return SearchError(f"the index is damaged: {what}; build it again with `holdfast index`")


def _view(told: dict[str, Any]) -> View:
    told = {**VIEW_BEFORE, **told}
    if told["fit"] not in get_args(Fit) or told["interpolation"] not in get_args(Interpolation):
        raise damaged(f"{MANIFEST} names a fit or an interpolation that does not exist")
    try:
        return View(told["size"], told["canvas"], told["fit"], told["interpolation"])
    except ValueError as error:
        raise damaged(str(error)) from error


def _arrays(file: Path) -> dict[str, NDArray[Any]]:
    from safetensors.numpy import load

    content = _read(file)
    try:
        return load(content)
    except Exception as error:  # safetensors raises types of its own; each means that the file is not one
        raise damaged(f"{file.name} is no safetensors file ({' '.join(str(error).split())[:100]})") from error


def _array(arrays: dict[str, NDArray[Any]], name: str, dtype: type) -> NDArray[Any]:
    array = arrays.get(name)
    if array is None or array.dtype != np.dtype(dtype) or array.ndim != 2:
        raise damaged(f"'{name}' is missing or of another type or rank")
    return array


def _words(names: Any, part: str, count: int) -> list[str]:
    words = names.get(part) if isinstance(names, dict) else None
    if not isinstance(words, list) or len(words) != count or not all(isinstance(word, str) for word in words):
        raise damaged(f"its list of {part} does not fit its vectors")
    return words


def _parsed(content: bytes, name: str) -> Any:
    try:
        return parse_json(content)
    except ValueError as error:
        raise damaged(f"{name} is no JSON file") from error


def _read(file: Path) -> bytes:
    """The content of a file that is named by its digest."""
    if not file.is_file():
        raise damaged(f"{file.name} is missing")
    content = file.read_bytes()
    if _digest(content) not in file.name:
        raise damaged(f"{file.name} was cut short or changed")
    return content


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def check_format(file: Path) -> Path:
    """The file, with `.npz` where it names no format; refused, before any work is done, if it cannot be written."""
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
    plain = {name: arrow.array(column.tolist()) for name, column in columns.items()}
    parquet.write_table(arrow.table({**plain, "vectors": lists}), out)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise HoldfastError("parquet needs pyarrow: pip install 'holdfast[parquet]', or write .npz") from error
    return pyarrow, parquet


WRITERS: dict[str, Callable[[io.BytesIO, Any, dict[str, Any]], None]] = {".npz": _npz, ".parquet": _parquet}
