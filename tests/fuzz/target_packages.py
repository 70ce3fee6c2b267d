"""A stranger's model package, checkpoint, audit state and index: arrays and checked JSON, or one line."""

from __future__ import annotations

import functools
import hashlib
import json
import random
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fuzzing import Target, Wrong
from mutations import damaged, damaged_bytes, damaged_text, json_fit

from holdfast.audit.state import AuditState, read_measurements
from holdfast.errors import HoldfastError
from holdfast.models import Embedder, load_model
from holdfast.search import IndexedImages, MemoryIndex, ModelFacts
from holdfast.search.store import read_index, write_index
from holdfast.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from holdfast.view import View

Files = dict[str, bytes]


def damaged_json(content: bytes, draw: random.Random) -> bytes:
    """A JSON file with other values, or no JSON any more."""
    if draw.random() < 0.02:
        return draw.choice((b"[", b'{"a":')) * 100_000
    if draw.random() < 0.75:
        return json.dumps(json_fit(damaged(json.loads(content), draw))).encode()
    return damaged_text(content.decode(), draw).encode("utf-8", "surrogatepass")


def damaged_tensors(content: bytes, draw: random.Random) -> bytes:
    """A safetensors file with another header, or other bytes."""
    if draw.random() < 0.4:
        return damaged_bytes(content, draw)
    (length,) = struct.unpack("<Q", content[:8])
    head = json.dumps(json_fit(damaged(json.loads(content[8 : 8 + length]), draw))).encode()
    size = draw.choice((len(head), len(head), len(head), 2**63, 2**40, 0))
    return struct.pack("<Q", size) + head + content[8 + length :]


def _unpack(files: Files, folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _read(folder: Path) -> Files:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@functools.cache
def _package() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        Embedder("conv-tiny", dim=4).save_pretrained(folder)
        return {name: content for name, content in _read(Path(folder)).items() if not name.endswith(".md")}


def _model(draw: random.Random, folder: Path) -> None:
    files = dict(_package())
    name = draw.choice(("config.json", "model.safetensors"))
    files[name] = (damaged_json if name == "config.json" else damaged_tensors)(files[name], draw)
    _unpack(files, folder)
    model = load_model(str(folder))
    if model.size <= 64 and model(torch.zeros(2, 3, model.size, model.size)).shape != (2, model.dim):
        raise Wrong("the model gives vectors of another length than it says")


@functools.cache
def _index(kind: str) -> Files:
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((24, 4)).astype(np.float32)
    fingerprints = draw.integers(0, 256, (24, 16), dtype=np.uint8)
    facts = ModelFacts("nobody", "", View(32), vectors[:1])
    images = IndexedImages([f"v{i}" for i in range(24)], ["x"] * 24, ["y"] * 24, fingerprints)
    with tempfile.TemporaryDirectory() as folder:
        write_index(Path(folder), MemoryIndex(vectors, images, model=facts, kind=kind))
        return _read(Path(folder))


def _searched(draw: random.Random, folder: Path) -> None:
    files = dict(_index(draw.choice(("flat", "ivf", "hnsw"))))
    manifest = json.loads(files["manifest.json"])
    part = draw.choice(("manifest", "arrays", "names"))
    if part == "manifest":
        files["manifest.json"] = damaged_json(files["manifest.json"], draw)
    else:
        before = files.pop(manifest[part])
        content = (damaged_tensors if part == "arrays" else damaged_json)(before, draw)
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()  # a stranger knows how to compute one, too
        manifest[part] = f"{part}-{digest}.{'safetensors' if part == 'arrays' else 'json'}"
        files |= {manifest[part]: content, "manifest.json": json.dumps(manifest).encode()}
    _unpack(files, folder)
    index = read_index(folder)
    found = index.search(np.ones((2, index.dim), np.float32), 3)
    if len(index.images) != len(index) or not ((found.rows >= -1) & (found.rows < len(index))).all():
        raise Wrong("the index finds rows that it does not have")


MEASURED = {"rank": torch.arange(6.0), "hit": torch.ones(6, dtype=torch.bool), "cost": torch.ones(1, 3)}
IDENTITY: dict[str, Any] = {"title": "ers-fixed", "budget": {"eps": 8 / 255, "steps": 32}, "seed": 0}


@functools.cache
def _state() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        state = AuditState(Path(folder) / "state", IDENTITY)
        for block in range(2):
            state.put("CA+", block, MEASURED)
        state.join(Path(folder) / "joined.safetensors", {"CA+": MEASURED})
        return _read(Path(folder))


def _audit(draw: random.Random, folder: Path) -> None:
    files = dict(_state())
    name = draw.choice(sorted(files))
    files[name] = (damaged_json if name.endswith(".json") else damaged_tensors)(files[name], draw)
    _unpack(files, folder)
    state = AuditState(folder / "state", IDENTITY)
    for block in range(2):
        found = state.get("CA+", block, rows=6)
        if found is not None and any(len(t) != 6 for key, t in found.items() if key != "cost"):
            raise Wrong("a block of other rows than were attacked")
    if not state.resumed and state.get("CA+", 0, rows=6) is not None:
        raise Wrong("measurements of another audit were kept")
    read_measurements(folder / "joined.safetensors")


@functools.cache
def _checkpoints() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        for step in (1, 2):
            save_checkpoint(Path(folder), Checkpoint(step, {"w": torch.full((3,), float(step))}, {"best": 1.0}))
        return _read(Path(folder))


def _checkpoint(draw: random.Random, folder: Path) -> None:
    files = dict(_checkpoints())
    name = draw.choice(sorted(files))
    files[name] = (damaged_json if name.endswith(".json") else damaged_tensors)(files[name], draw)
    _unpack(files, folder)
    found = load_checkpoint(folder)
    if found is None or not torch.equal(found.tensors["w"], torch.full((3,), float(found.step))):
        raise Wrong("the whole checkpoint was lost, or a damaged one used")
    if files[name] != _checkpoints()[name] and f"{found.step:09d}" == name.split("/")[0]:
        same = json.loads(files[name]) == json.loads(_checkpoints()[name]) if name.endswith(".json") else False
        if not same:
            raise HoldfastError("a damaged checkpoint was read")


TARGETS = (
    Target("model-package", _model, 30),
    Target("index", _searched, 50),
    Target("audit-state", _audit, 50),
    Target("checkpoint", _checkpoint, 30),
)
