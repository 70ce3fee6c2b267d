"""A stranger's index cannot execute code, write outside its folder, or end in anything but one line."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save
from torch import Tensor, nn

from holdfast.errors import HoldfastError, ModelError, SearchError
from holdfast.models import Embedder
from holdfast.search import add_images, create_index, model_of, read_index
from index_cases import index_of, made, picture_table, pictures, unit_vectors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made(tmp_path / "index", 24, kind="hnsw")
    return tmp_path / "index"


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())  # type: ignore[no-any-return]


def rewrite(folder: Path, part: str, data: bytes) -> None:
    """Replace a file as a clever stranger would: under its right digest."""
    facts = manifest(folder)
    suffix = Path(facts[part]).suffix
    facts[part] = f"{part}-{hashlib.blake2b(data, digest_size=16).hexdigest()}{suffix}"
    (folder / facts[part]).write_bytes(data)
    (folder / "manifest.json").write_text(json.dumps(facts))


def with_arrays(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        arrays = {k: v.copy() for k, v in load((folder / manifest(folder)["arrays"]).read_bytes()).items()}
        change(arrays)
        rewrite(folder, "arrays", save(arrays))

    return apply


def with_manifest(**facts: Any) -> Callable[[Path], None]:
    return lambda folder: (folder / "manifest.json").write_text(json.dumps({**manifest(folder), **facts})) and None


def with_model(**facts: Any) -> Callable[[Path], None]:
    return lambda folder: with_manifest(model={**manifest(folder)["model"], **facts})(folder)


def with_names(names: Any) -> Callable[[Path], None]:
    return lambda folder: rewrite(folder, "names", json.dumps(names).encode())


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch exploded",)


def huge_header(folder: Path) -> None:
    header = json.dumps({"vectors": {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 2**62]}}).encode()
    rewrite(folder, "arrays", struct.pack("<Q", len(header)) + header)


ATTACKS: dict[str, Callable[[Path], None]] = {
    "path out": with_manifest(arrays="../../arrays-0.safetensors"),
    "absolute path": with_manifest(names="/etc/passwd"),
    "path behind a good name": with_manifest(names=f"names-{'0' * 32}.json/../../x"),
    "newline behind a good name": with_manifest(names=f"names-{'0' * 32}.json\n"),
    "unknown kind": with_manifest(kind="../pickle"),
    "kind is a list": with_manifest(kind=["flat"]),
    "huge count": with_manifest(images=10**15),
    "negative count": with_manifest(images=-1),
    "count is true": with_manifest(images=True),
    "no model": with_manifest(model=None),
    "model is a list": with_manifest(model=[1]),
    "unknown fit": with_model(fit="../stretch"),
    "fit is a list": with_model(fit=["crop"]),
    "unknown interpolation": with_model(interpolation=None),
    "canvas smaller than the input": with_model(canvas=3),
    "no input at all": with_model(size=-5, canvas=-5),
    "schema of the future": with_manifest(schema=99),
    "manifest is no object": lambda folder: (folder / "manifest.json").write_text("[]") and None,
    "manifest nested deep": lambda folder: (folder / "manifest.json").write_text("[" * 100_000) and None,
    "manifest too long": lambda folder: (folder / "manifest.json").write_text(" " * 2**21 + "{}") and None,
    "manifest is no text": lambda folder: (folder / "manifest.json").write_bytes(b"\xff\x00\xfe") and None,
    "NaN vectors": with_arrays(lambda a: a["vectors"].__setitem__((3, 2), np.nan)),
    "infinite vectors": with_arrays(lambda a: a["vectors"].__setitem__((3, 2), np.inf)),
    "vectors at the end of 32 bits": with_arrays(lambda a: a["vectors"].__setitem__(3, np.float32(3e38))),
    "vectors at both ends": with_arrays(lambda a: a["vectors"].__setitem__((3, slice(2)), np.float32([3e38, -3e38]))),
    "probe at the end of 32 bits": with_arrays(lambda a: a["probe"].__setitem__((0, 0), np.float32(-3e38))),
    "calibration at the end of 32 bits": with_arrays(lambda a: a["clean"].__setitem__((0, 0), np.float32(3e38))),
    "NaN calibration": with_arrays(lambda a: a["clean"].__setitem__((0, 0), np.nan)),
    "calibration of other width": with_arrays(lambda a: a.update(clean=a["clean"][:, :2].copy())),
    "fewer vectors": with_arrays(lambda a: a.update(vectors=a["vectors"][:5].copy())),
    "other dims": with_arrays(lambda a: a.update(vectors=a["vectors"][:, :5].copy())),
    "integer vectors": with_arrays(lambda a: a.update(vectors=a["vectors"].astype(np.int32))),
    "flat vectors": with_arrays(lambda a: a.update(vectors=a["vectors"].reshape(-1))),
    "no vectors": with_arrays(lambda a: a.pop("vectors") is None),
    "fingerprints of other width": with_arrays(lambda a: a.update(prints=a["prints"][:, :3].copy())),
    "pickle for arrays": lambda folder: rewrite(folder, "arrays", pickle.dumps(Bomb())),
    "pickle for names": lambda folder: rewrite(folder, "names", pickle.dumps(Bomb())),
    "huge header": huge_header,
    "names are numbers": with_names({"ids": list(range(24)), "labels": [""] * 24}),
    "too few names": with_names({"ids": ["a"], "labels": ["b"]}),
    "one name for all": with_names({"ids": ["a"] * 24, "labels": [""] * 24}),
    "names are a list": with_names(["a"] * 24),
}


@pytest.mark.parametrize("attack", sorted(ATTACKS))
def test_a_hostile_index_ends_in_one_line(folder: Path, attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    ATTACKS[attack](folder)
    with pytest.raises(SearchError) as caught:
        read_index(folder)
    assert "\n" not in str(caught.value)
    assert not (folder.parent / "exploded").exists()


STRUCTURES = {
    "ivf": {"centroids": np.full((4, 8), 3e38, np.float32), "cells": np.full(24, 10**9)},
    "hnsw": {
        "levels": np.full(24, 2**31 - 1, np.int32),
        "links": np.full(24 * 64, 2**31 - 1, np.int32),
        "entry": np.array([10**12]),
    },
}
"""As folders of before hold them, with numbers that FAISS would follow out of its memory."""


@pytest.mark.parametrize("kind", sorted(STRUCTURES))
def test_a_structure_in_a_folder_of_before_is_never_read(tmp_path: Path, kind: str) -> None:
    index = made(tmp_path / "old", 24, kind=kind)
    stored = {f"structure.{name}": array for name, array in STRUCTURES[kind].items()}
    with_arrays(lambda arrays: arrays.update(stored))(tmp_path / "old")
    opened = read_index(tmp_path / "old")
    opened.structure.prepare()
    assert opened.kind == kind
    np.testing.assert_array_equal(opened.search(index.vectors, 1).rows[:, 0], np.arange(24))


@pytest.mark.parametrize("number", [np.nan, np.inf, 3e38, -3e38])
def test_no_distance_is_ever_infinite(number: float) -> None:
    vectors = unit_vectors(8, 4)
    found = index_of(1e9 * vectors).search(-1e9 * vectors, 8).distances
    assert np.isfinite(found).all(), "long vectors are no mistake"
    broken = vectors.copy()
    broken[2, 1] = number
    with pytest.raises(SearchError, match="far too long"):
        index_of(vectors).search(broken)
    with pytest.raises(SearchError, match="far too long"):
        index_of(broken)


def test_a_model_with_absurd_vectors_makes_no_index(tmp_path: Path) -> None:
    class Huge(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return 3e38 * images.mean((2, 3)).clamp_min(0.5)

    model = Embedder.wrap(Huge(), 32, normalize=False).eval()
    with pytest.raises(ModelError, match="gives 'picture-0' a vector that is not finite or far too long"):
        create_index(tmp_path / "index", model, picture_table(pictures(3)))
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("name", ["arrays", "names"])
def test_a_link_in_place_of_a_file_is_refused(folder: Path, name: str, tmp_path: Path) -> None:
    file = folder / manifest(folder)[name]
    file.rename(tmp_path / "outside")
    file.symlink_to(tmp_path / "outside")
    with pytest.raises(SearchError, match="link"):
        read_index(folder)


def test_a_pipe_is_refused_rather_than_waited_for(folder: Path) -> None:
    file = folder / manifest(folder)["arrays"]
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(SearchError, match="no plain file"):
        read_index(folder)


@pytest.mark.parametrize("place", ["manifest.json", ".manifest.json.tmp", "model/config.json", "model"])
def test_adding_never_writes_through_a_link(folder: Path, place: str, tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    held = (folder / place).read_bytes() if (folder / place).is_file() else b"precious"
    outside.write_bytes(held)
    if (folder / place).is_dir():
        (folder / place).rename(tmp_path / "real")
    (folder / place).unlink(missing_ok=True)
    (folder / place).symlink_to(outside)
    with pytest.raises(HoldfastError):
        add_images(folder, picture_table(pictures(2, seed=3), first=90))
    assert outside.read_bytes() == held


def test_a_hard_link_of_the_name_written_aside_is_not_written_through(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_text("precious")
    os.link(outside, folder / ".manifest.json.tmp")
    add_images(folder, picture_table(pictures(2, seed=3), first=90))
    assert outside.read_text() == "precious"


def test_only_files_of_an_index_are_removed(folder: Path) -> None:
    victim = folder / "model" / "config.json"
    facts = manifest(folder)
    (folder / "manifest.json").write_text(json.dumps({**facts, "arrays": "model/config.json"}))
    with pytest.raises(SearchError):
        add_images(folder, picture_table(pictures(2, seed=3), first=90))
    assert victim.is_file()


def test_the_model_inside_runs_no_code(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath('exploded').touch()\n")
    monkeypatch.chdir(tmp_path)
    config = folder / "model" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "backbone": "evil:net"}))
    index = read_index(folder)
    with pytest.raises(ModelError, match="would run the code"):
        model_of(folder, index, None, "cpu")
    assert not (tmp_path / "exploded").exists()


def test_the_name_of_the_model_is_never_opened(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'exploded')!r}, 'w')\ndef net(): ...\n")
    facts = manifest(folder)
    facts["model"]["reference"] = f"{tmp_path}/evil.py:net"
    (folder / "manifest.json").write_text(json.dumps(facts))
    for file in (folder / "model").iterdir():
        file.unlink()
    (folder / "model").rmdir()
    with pytest.raises(SearchError, match="--model"):
        model_of(folder, read_index(folder), None, "cpu")
    assert not (tmp_path / "exploded").exists()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=st.sampled_from(["arrays", "names"]), keep=st.floats(0, 0.999), honest=st.booleans())
def test_a_file_cut_short_is_one_line(folder: Path, part: str, keep: float, honest: bool) -> None:
    before = {p: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    file = folder / manifest(folder)[part]
    cut = file.read_bytes()[: int(keep * file.stat().st_size)]
    if honest:
        file.write_bytes(cut)
    else:
        rewrite(folder, part, cut)
    try:
        with pytest.raises(SearchError, match="damaged"):
            read_index(folder)
    finally:
        for path in folder.iterdir():
            if path.is_file():
                path.unlink()
        for path, data in before.items():
            path.write_bytes(data)


def test_no_folder_and_an_empty_one(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(SearchError, match="there is no index"):
            read_index(folder)
