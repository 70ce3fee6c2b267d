"""What was compiled once is there for the next process; what does not fit is skipped with a line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from holdfast import console
from holdfast.files import cache_folder
from holdfast.models import Embedder, compile_cache
from holdfast.models.bank import SetStart
from holdfast.models.compile_cache import CompileCache, network_key

CPU = torch.device("cpu")


class Torch:
    """Stands for `torch.compiler`: graphs are names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.loaded: list[str] = []
        monkeypatch.setattr(torch.compiler, "save_cache_artifacts", self.save)
        monkeypatch.setattr(torch.compiler, "load_cache_artifacts", self.load)

    def save(self) -> tuple[bytes, SimpleNamespace] | None:
        info = SimpleNamespace(artifacts=defaultdict(list, inductor=list(self.made)))
        return (json.dumps(self.made).encode(), info) if self.made else None

    def load(self, content: bytes) -> SimpleNamespace:
        self.loaded += json.loads(content)
        return SimpleNamespace()


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Torch:
    return Torch(monkeypatch)


def cache(folder: Path, network: str = "net") -> CompileCache:
    return CompileCache(folder, network, CPU)


def files(folder: Path) -> list[Path]:
    return sorted((folder / compile_cache.FOLDER).glob("*"))


def filled(folder: Path, compiler: Torch, *graphs: str) -> Path:
    compiler.made = list(graphs)
    before = set(files(folder))
    cache(folder).save()
    (file,) = set(files(folder)) - before
    return file


def test_the_next_process_gets_what_was_compiled(tmp_path: Path, compiler: Torch) -> None:
    filled(tmp_path, compiler, "look", "craft")
    later = cache(tmp_path)
    assert not later.warm
    later.load()
    assert later.warm
    assert compiler.loaded == ["look", "craft"]
    later.save()
    assert len(files(tmp_path)) == 1, "nothing new, nothing written"
    other = cache(tmp_path, "another")
    other.load()
    assert not other.warm


def test_a_file_that_a_newer_one_covers_goes_and_others_stay(tmp_path: Path, compiler: Torch) -> None:
    filled(tmp_path, compiler, "a", "b")
    filled(tmp_path, compiler, "c")
    assert len(files(tmp_path)) == 2, "two processes that started together, each with graphs of its own"
    filled(tmp_path, compiler, "a", "b", "d")
    cache(tmp_path).load()
    assert sorted(compiler.loaded) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("harm", ["cut", "flipped", "header", "empty", "folder"])
def test_a_damaged_file_is_skipped_with_one_line(
    tmp_path: Path, compiler: Torch, harm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = filled(tmp_path, compiler, "a")
    content = file.read_bytes()
    file.unlink()
    if harm == "folder":
        file.mkdir()
    else:
        harmed = {
            "cut": content[:-3],
            "flipped": content[:-2] + bytes([content[-2] ^ 1]) + content[-1:],
            "header": content[20:],
            "empty": b"",
        }
        file.write_bytes(harmed[harm])
    with console.shown():
        later = cache(tmp_path)
        later.load()
    assert not later.warm
    assert not compiler.loaded
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert file.name in said[0]


@pytest.mark.parametrize("key", ["torch", "holdfast", "python", "device"])
def test_a_file_made_elsewhere_is_skipped_with_one_line(
    tmp_path: Path, compiler: Torch, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = filled(tmp_path, compiler, "a")
    first, _, rest = file.read_bytes().partition(b"\n")
    about = json.loads(first)
    about["environment"][key] = "another"
    file.write_bytes(json.dumps(about).encode() + b"\n" + rest)
    shutil.copy(file, file.with_name(f"net-2{compile_cache.SUFFIX}"))
    with console.shown():
        later = cache(tmp_path)
        later.load()
    assert not later.warm
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1, "one line for all of them"
    assert f"{key} another" in said[0]
    compiler.made = ["a", "b"]
    later.save()
    assert len(files(tmp_path)) == 3, "those of others are left alone"


def test_files_that_were_not_used_for_longest_go(
    tmp_path: Path, compiler: Torch, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (filled(tmp_path, compiler, name) for name in ("a", "b"))
    for file, when in ((old, 1_000), (new, 2_000)):
        os.utime(file, (when, when))
    monkeypatch.setattr(compile_cache, "LIMIT", int(2.5 * new.stat().st_size))
    last = filled(tmp_path, compiler, "c")
    assert files(tmp_path) == sorted([new, last])


def test_a_folder_that_cannot_be_written_costs_a_line_and_nothing_else(
    tmp_path: Path, compiler: Torch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / compile_cache.FOLDER).write_text("a file where the folder should be")
    compiler.made = ["a"]
    with console.shown():
        kept = cache(tmp_path)
        kept.load()
        kept.save()
        kept.save()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_folder_is_of_the_users_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("HOLDFAST_CACHE", "")
    assert cache_folder() is None
    monkeypatch.delenv("HOLDFAST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert cache_folder() == tmp_path / "holdfast"


def test_a_network_is_known_by_its_build() -> None:
    plain, again = (Embedder("conv-tiny", dim=8) for _ in range(2))
    again.bank.add(again.backbone, SetStart("stax"))
    assert network_key(plain) == network_key(again), "weights and sets are inputs of its graphs"
    assert len({network_key(m) for m in (plain, Embedder("conv-tiny", dim=9), Embedder("conv-small", dim=8))}) == 3


SCRIPT = """
import torch
from holdfast.models import Embedder
from holdfast.models.compiled import CompiledPasses
model = Embedder("conv-tiny", dim=8, size=16).eval().requires_grad_(False)
run = CompiledPasses(model)
images = torch.rand(4, 3, 16, 16, requires_grad=True)
torch.autograd.grad(run(images).sum(), images)
counters = torch._dynamo.utils.counters
print(counters["aot_autograd"]["autograd_cache_hit"], counters["aot_autograd"]["autograd_cache_miss"])
"""


@pytest.mark.slow  # half a minute of a C++ compiler
@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")
def test_another_machine_compiles_nothing(tmp_path: Path) -> None:
    """torch's own folder is another one in the second process, as on another machine."""
    said = []
    for place in ("here", "there"):
        chosen = {"HOLDFAST_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / place)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, **chosen}, capture_output=True, text=True, check=True
        )
        said.append(done.stdout.split())
    assert said == [["0", "1"], ["1", "0"]]
