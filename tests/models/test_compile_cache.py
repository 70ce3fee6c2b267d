"""What was compiled once is there for the next process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch._inductor.runtime.cache_dir_utils

from holdfast.files import cache_folder
from holdfast.models import Embedder, compile_cache
from holdfast.models.bank import SetStart
from holdfast.models.compile_cache import VARIABLE, compile_folder, keep_compiled, network_key

CPU = torch.device("cpu")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "")  # so that it is as before afterwards
    monkeypatch.delenv(VARIABLE)
    return tmp_path / compile_cache.FOLDER


def test_torch_is_given_a_folder_that_stays(root: Path) -> None:
    keep_compiled(CPU)
    folder = compile_folder(CPU)
    assert folder is not None
    assert folder.parent == root
    assert Path(os.environ[VARIABLE]) == folder / compile_cache.GRAPHS
    assert torch._inductor.runtime.cache_dir_utils.cache_dir() == os.environ[VARIABLE]


def test_torchs_own_choice_gives_way_and_the_users_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_dir = torch._inductor.runtime.cache_dir_utils.cache_dir
    chosen = cache_dir()  # torch has compiled something before
    keep_compiled(CPU)
    assert cache_dir() != chosen
    monkeypatch.setenv(VARIABLE, str(root / "mine"))
    keep_compiled(CPU)
    assert os.environ[VARIABLE] == str(root / "mine")


def test_nothing_is_kept_where_nothing_may_be(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.write_text("a file where the folder should be")
    keep_compiled(CPU)
    monkeypatch.setenv("HOLDFAST_CACHE", "")
    assert compile_folder(CPU) is None
    keep_compiled(CPU)
    assert VARIABLE not in os.environ


@pytest.mark.parametrize("key", ["torch", "python", "device"])
def test_another_kind_of_machine_has_a_folder_of_its_own(root: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here, about = compile_folder(CPU), compile_cache.environment(CPU)
    monkeypatch.setattr(compile_cache, "environment", lambda _: {**about, key: "another"})
    assert compile_folder(CPU) != here


def test_folders_that_were_not_used_for_long_go(root: Path) -> None:
    for name, age in (("torch-1", compile_cache.UNUSED + 60), ("torch-2", compile_cache.UNUSED / 2)):
        (root / name / "torch").mkdir(parents=True)
        os.utime(root / name, (time.time() - age,) * 2)
    keep_compiled(CPU)
    folder = compile_folder(CPU)
    assert folder is not None
    assert {each.name for each in root.iterdir()} == {"torch-2", folder.name}


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
import sys, torch
from holdfast.models import Embedder
from holdfast.models.compiled import CompiledPasses
model = Embedder("conv-tiny", dim=8, size=16).eval().requires_grad_(False)
run = CompiledPasses(model)
for count in map(int, sys.argv[1:]):
    images = torch.rand(count, 3, 16, 16, requires_grad=True)
    torch.autograd.grad(run(images).sum(), images)
counters = torch._dynamo.utils.counters["aot_autograd"]
print(bool(counters["autograd_cache_hit"]), bool(counters["autograd_cache_miss"]))
"""


@pytest.mark.slow  # half a minute of a C++ compiler
@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")
def test_another_machine_compiles_nothing(tmp_path: Path) -> None:
    """The folder is carried to another place between two processes; graphs of several ranges of sizes are in it."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}

    def hit_and_missed(cache: str, *counts: int) -> list[str]:
        command = [sys.executable, "-c", SCRIPT, *map(str, counts)]
        chosen = {**environment, "HOLDFAST_CACHE": str(tmp_path / cache)}
        return subprocess.run(command, env=chosen, capture_output=True, text=True, check=True).stdout.split()

    assert hit_and_missed("here", 4)[1] == "True"
    hit_and_missed("here", 200)
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert hit_and_missed("there", 200, 4) == ["True", "False"]
