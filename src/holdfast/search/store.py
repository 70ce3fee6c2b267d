"""An index as a folder, which no crash damages and from which a stranger's does no harm.

The folder holds `manifest.json`, one safetensors file of arrays, one JSON file of names and, where it can be packaged,
`model/`. The manifest names the two files by their digests and is replaced in one step: before, the folder is the old
index, afterwards the new one. Of an index in Milvus it holds all but vectors and names, and says which collection has
those; where that is must be said by the person who opens it, so that a stranger's folder leads nowhere.

What makes a search fast is built from the vectors when it is needed (`memory.Structure`). Folders of before hold it
too, as arrays under `structure.`: these are not read, so such a folder opens like any other.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import stat
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import SearchError, one_line
from holdfast.files import write_atomic, write_json
from holdfast.processes import current_processes
from holdfast.run_files import block, parse_json
from holdfast.search.collection import Collection
from holdfast.search.index import (
    CHANGED_COPIES,
    CHANGED_COPIES_BEFORE,
    STATISTICS,
    Index,
    IndexedImages,
    ModelFacts,
    usable,
)
from holdfast.search.kinds import KINDS, MILVUS
from holdfast.search.memory import MemoryIndex
from holdfast.search.milvus import MilvusIndex
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
ENDING = {"arrays": ".safetensors", "names": ".json"}
OTHER_SHAPES = "its arrays have other shapes than its manifest says"
UNUSABLE = "it holds numbers that are not finite, or too large for any model"
NAMED_BEFORE_FILE = re.compile(r"onnx:|(timm|torchvision):[^@]*@")
COLLECTION = re.compile(r"\w{1,255}", re.ASCII)


def write_index(folder: Path, index: Index, replaces: dict[str, Any] | None = None) -> None:
    """Write an index into a folder.

    Args:
        folder: there already.
        index: what to write.
        replaces: the manifest of the index that was read and extended; refused if the folder holds another by now.
    """
    from safetensors.numpy import save

    arrays: dict[str, NDArray[Any]] = {"clean": index.clean, "probe": index.model.probe}
    contents, elsewhere = {}, {}
    if isinstance(index, MemoryIndex):
        images = index.images
        arrays |= {"vectors": index.vectors, "prints": images.fingerprints}
        words = {"ids": list(images.ids), "labels": list(images.labels), "groups": list(images.groups)}
        contents["names"] = json.dumps(words).encode()
    elif isinstance(index, MilvusIndex):
        elsewhere = {"milvus": {"collection": index.collection.name, "place": index.collection.shown}}
    contents["arrays"] = save(arrays)
    files = {part: f"{part}-{_digest(content)}{ENDING[part]}" for part, content in contents.items()}
    for part, content in contents.items():
        write_atomic(folder / files[part], content)
    if replaces is not None and read_manifest(folder) != replaces:
        raise SearchError(f"{folder} was changed by somebody else meanwhile; run the same command again")
    facts = index.model
    manifest = {
        "schema": SCHEMA,
        "kind": index.kind,
        "images": len(index),
        "dim": index.dim,
        **files,
        **elsewhere,
        **({} if index.unfinished is None else {"unfinished": index.unfinished}),
        "model": {
            "reference": _without_folders(facts.reference),
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
    for old in {(replaces or {}).get(part) for part in ENDING} - {None, *files.values()}:
        (folder / str(old)).unlink(missing_ok=True)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The checked manifest of an index whose folder holds only plain files and folders."""
    if not (folder / MANIFEST).is_file():
        raise SearchError(f"there is no index in '{folder}'; make one: holdfast index MODEL --data DATA --out DIR")
    _refuse_links(folder)
    if (folder / MANIFEST).stat().st_size > LARGEST_MANIFEST:
        raise damaged(f"{MANIFEST} is too long")
    manifest = _parsed((folder / MANIFEST).read_bytes(), MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise damaged(f"{MANIFEST} is not of schema {SCHEMA}")
    manifest.setdefault("copies", CHANGED_COPIES_BEFORE)
    in_milvus = manifest.get("kind") == MILVUS
    for part in ("arrays",) if in_milvus else ("arrays", "names"):
        wanted = rf"{part}-[0-9a-f]{{32}}{re.escape(ENDING[part])}"
        if not isinstance(manifest.get(part), str) or not re.fullmatch(wanted, manifest[part]):
            raise damaged(f"{MANIFEST} names no file of {part}")
    if in_milvus and not COLLECTION.fullmatch(str(block(manifest, "milvus").get("collection"))):
        raise damaged(f"{MANIFEST} names no collection")
    for told, facts in ((manifest, FACTS), (manifest.get("model"), MODEL_FACTS)):
        if not isinstance(told, dict) or any(type(told.get(key)) is not kind for key, kind in facts.items()):
            raise damaged(f"{MANIFEST} lacks one of {', '.join(facts)}")
    if manifest["kind"] not in KINDS:
        raise damaged(f"{MANIFEST} names a kind that does not exist")
    if manifest["copies"] not in (CHANGED_COPIES, CHANGED_COPIES_BEFORE):
        raise damaged(f"{MANIFEST} names a number of changed copies that does not exist")
    return manifest


def read_index(folder: str | Path, manifest: dict[str, Any] | None = None, milvus: str | None = None) -> Index:
    """The index of a folder, every part of it checked; nothing is executed, nothing outside the folder is read.

    Args:
        folder: of the index.
        manifest: of the folder, if it was read already; one that was replaced since is read anew.
        milvus: where Milvus is, for an index of that kind: nothing else is connected to.
    """
    folder = Path(folder)
    manifest, arrays, names = _loaded(folder, manifest or read_manifest(folder))
    probe, clean = _array(arrays, "probe", np.float32), _array(arrays, "clean", np.float32)
    count, dim = manifest["images"], manifest["dim"]
    if dim < 1 or (probe.shape[1:], clean.shape[1:]) != ((dim,), (STATISTICS,)):
        raise damaged(OTHER_SHAPES)
    if not (usable(probe).all() and usable(clean).all()):
        raise damaged(UNUSABLE)
    told = manifest["model"]
    audit, thresholds = block(told, "audit"), thresholds_of(told)
    facts = {
        "model": ModelFacts(
            _without_folders(told["reference"]), told["weights"], _view(told), probe, audit, thresholds
        ),
        "kind": manifest["kind"],
        "seed": manifest["seed"],
        "clean": clean,
        "copies": manifest["copies"],
    }
    if manifest["kind"] == MILVUS:
        return _in_milvus(manifest, milvus, facts)
    vectors, fingerprints = _array(arrays, "vectors", np.float32), _array(arrays, "prints", np.uint8)
    if count < 1 or (vectors.shape, fingerprints.shape) != ((count, dim), (count, 16)):
        raise damaged(OTHER_SHAPES)
    if not usable(vectors).all():
        raise damaged(UNUSABLE)
    if isinstance(names, dict):
        names.setdefault("groups", [""] * count)  # an index of before has none
    ids, labels, groups = (_words(names, part, count) for part in ("ids", "labels", "groups"))
    if len(set(ids)) != count:
        raise damaged("it names an image twice")
    return MemoryIndex(vectors, IndexedImages(ids, labels, groups, fingerprints), **facts)


def _without_folders(reference: str) -> str:
    """What a model is called, without the folders of the machine: of `file.py:function` and the like the last name."""
    named = NAMED_BEFORE_FILE.match(reference)
    if named is None and not reference.rpartition(":")[0].endswith(".py"):
        return reference
    start = named.end() if named else 0
    return reference[:start] + re.split(r"[/\\]", reference[start:])[-1]


def _refuse_links(folder: Path) -> None:
    """Refuse a folder that holds other than plain files and folders."""
    for path in folder.rglob("*"):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:  # another process writes there, and has put it in its place or removed it
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise SearchError(f"{path} is a link or no plain file; an index with such files is not opened")


def _loaded(folder: Path, manifest: dict[str, Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]], Any]:
    """The manifest, its arrays and its names; where another process replaced all three meanwhile, the new ones."""
    while True:
        try:
            arrays, in_milvus = _arrays(folder / manifest["arrays"]), manifest["kind"] == MILVUS
            return (
                manifest,
                arrays,
                None if in_milvus else _parsed(_read(folder / manifest["names"]), manifest["names"]),
            )
        except (FileNotFoundError, IsADirectoryError) as error:
            newer = read_manifest(folder)
            if newer == manifest:
                raise damaged(f"{Path(error.filename).name} is missing") from error
            manifest = newer


def _in_milvus(manifest: dict[str, Any], milvus: str | None, facts: dict[str, Any]) -> MilvusIndex:
    told, unfinished = block(manifest, "milvus"), manifest.get("unfinished")
    if milvus is None:
        last = one_line(str(told.get("place", "")))[:200]
        raise SearchError(f"the vectors of this index are in Milvus, last at {last}; if you trust it: --milvus {last}")
    if unfinished is not None and type(unfinished) is not int:
        raise damaged(f"{MANIFEST} says no number of images to calibrate on")
    collection = Collection(milvus, told["collection"], manifest["dim"])
    current_processes().tell(collection.open)
    return MilvusIndex(collection, **facts, unfinished=unfinished)


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
    content = file.read_bytes()
    if _digest(content) not in file.name:
        raise damaged(f"{file.name} was cut short or changed")
    return content


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
