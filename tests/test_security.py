"""What must never stand in the source, and files that try to have code run."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import holdfast
from holdfast.errors import HoldfastError, RecipeError
from holdfast.models import Embedder, ModelConfig, load_model
from holdfast.training.recipe import load_recipe
from holdfast_studies import running
from holdfast_studies.jobs import Cell, Computation, Probe, Training
from holdfast_studies.store import Store

SOURCE = sorted(Path(holdfast.__file__).parent.rglob("*.py"))
MODULES = {
    "pickle",
    "_pickle",
    "pickletools",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "subprocess",
    "telnetlib",
    "ftplib",
    "tarfile",
    "xml",
    "runpy",
    "code",
    "ctypes",
}
NAMES = {"eval", "exec", "compile", "__import__"}
CALLS = {
    *(f"builtins.{name}" for name in NAMES),
    "os.system",
    "os.popen",
    "yaml.unsafe_load",
    "yaml.unsafe_load_all",
    "yaml.full_load",
    "yaml.full_load_all",
    "yaml.load_all",
    "torch.jit.load",
    "torch.hub.load",
    "torch.serialization.load",
    "torch.export.load",
    "torch.package.PackageImporter",
    "pandas.read_pickle",
    "scipy.io.loadmat",
    "shutil.unpack_archive",
    "tempfile.mktemp",
}
"""`loadmat` runs compiled code that a damaged file can crash."""
CODE_LOADERS = {"models/backbones.py"}
"""The file that imports a person's own code, when that person typed its name."""


def problems(tree: ast.AST) -> Iterator[str]:
    """What is unsafe in a module; a name is followed through `import a.b as c` and `from a import b as c`."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                known[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    yield from (f"imports {name}" for name in known.values() if name.partition(".")[0] in MODULES)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name, keywords = _called(node.func, known), {word.arg: word.value for word in node.keywords}
        if name in NAMES or name in CALLS:
            yield f"calls {name}"
        if name == "torch.load" and not _is(keywords.get("weights_only"), True):
            yield "torch.load without weights_only=True"
        if name == "yaml.load" and not _safe_loader(node, tree):
            yield "yaml.load without a safe loader"
        if name.startswith("numpy") and "allow_pickle" in keywords and not _is(keywords["allow_pickle"], False):
            yield "numpy with allow_pickle"
        if name in ("numpy.load", "numpy.lib.npyio.load") and (len(node.args) > 2 or None in keywords):
            yield "numpy.load, perhaps with allow_pickle"
        if name == "importlib.import_module" and any(_text(arg).partition(".")[0] in MODULES for arg in node.args):
            yield "imports a module that it must not, by its name"
        if "shell" in keywords and not _is(keywords["shell"], False):
            yield "a shell"
        if _last(node.func) == "extractall" or (name.endswith(".extract") and "archive" in name):
            yield "unpacks an archive"
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in ("read_index", "exec_module")
            and "faiss" in ast.unparse(node)
        ):
            yield "reads a file of FAISS"


def _called(node: ast.expr, known: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id)
    return f"{_called(node.value, known)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _safe_loader(call: ast.Call, tree: ast.AST) -> bool:
    """Whether the loader is a class of the same module that extends SafeLoader."""
    safe = {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and "SafeLoader" in map(_last, n.bases)}
    return len(call.args) == 2 and _last(call.args[1]) in safe


def _last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def test_no_unsafe_reading_anywhere_in_the_source() -> None:
    assert len(SOURCE) > 200
    found = {str(file): why for file in SOURCE for why in problems(ast.parse(file.read_text("utf-8")))}
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads as safe",
        "import cloudpickle as c",
        "import torch as t\nt.load('x')",
        "from torch import load\nload('x', weights_only=False)",
        "import torch\ntorch.load('x', weights_only=flag)",
        "import yaml as y\ny.load(text, y.Loader)",
        "import yaml\nyaml.load(text)",
        "from yaml import unsafe_load as f\nf(text)",
        "eval('1')",
        "exec(code)",
        "import os as o\no.system('x')",
        "import subprocess",
        "run(command, shell=True)",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "from numpy import load\nload('x', allow_pickle=asked)",
        "import faiss\nfaiss.read_index('x')",
        "import marshal",
        "import shelve as s",
        "from _pickle import Unpickler",
        "import builtins\nbuiltins.eval('1')",
        "import importlib\nimportlib.import_module('pickle')",
        "from importlib import import_module as i\ni('dill')",
        "import numpy as np\nnp.load('x', None, True)",
        "import numpy as np\nnp.load('x', **options)",
        "from torch.serialization import load\nload('x')",
        "import yaml\nyaml.load_all(text)",
        "import yaml\nyaml.load(text, Loader=yaml.UnsafeLoader)",
        "import zipfile\nwith zipfile.ZipFile('x') as z:\n    z.extractall()",
        "import shutil\nshutil.unpack_archive('x')",
        "from scipy.io import loadmat\nloadmat('x')",
        "import pandas as pd\npd.read_pickle('x')",
    ],
)
def test_the_scan_finds_what_it_looks_for(text: str) -> None:
    assert list(problems(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.load('x', weights_only=True)",
        "import numpy as np\nnp.load('x', allow_pickle=False)\nnp.load('x')",
        "import yaml\nyaml.safe_load(text)",
        "import importlib\nimportlib.import_module('onnx')",
        "import zipfile\nzipfile.ZipFile('x').read('y')",
    ],
)
def test_the_scan_lets_safe_reading_be(text: str) -> None:
    assert list(problems(ast.parse(text))) == []


def test_only_one_file_imports_code_by_a_name_from_outside() -> None:
    root = Path(holdfast.__file__).parent
    signs = ("exec_module(", "import_module(where)")
    loaders = {str(f.relative_to(root)) for f in SOURCE if any(sign in f.read_text("utf-8") for sign in signs)}
    assert loaders == CODE_LOADERS


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that leaves a mark when it is imported; the mark."""
    mark = tmp_path / "exploded"
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w')\ndef net(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "evil", raising=False)  # imported once more, it leaves its mark once more
    monkeypatch.chdir(tmp_path)
    return mark


@pytest.mark.parametrize(
    "block",
    [
        {"model": {"backbone": "evil:net"}},
        {"model": {"backbone": "evil.py:net"}},
        {"init": "evil.py:net"},
        {"init": "./evil.py:net"},
    ],
)
def test_a_recipe_file_runs_no_code(evil: Path, tmp_path: Path, block: dict) -> None:
    file = tmp_path / "stranger.yaml"
    file.write_text(yaml.safe_dump({"data": "glyphs", **block}))
    (tmp_path / "mine.yaml").write_text("base: stranger.yaml\nepochs: 2\n")
    for recipe in (file, tmp_path / "mine.yaml"):
        with pytest.raises(RecipeError, match="would run the code"):
            load_recipe(recipe)
    assert not evil.exists()


def test_code_that_the_user_typed_is_accepted(evil: Path, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("data: glyphs\nmodel: {backbone: 'evil:net'}\n")
    assert load_recipe(tmp_path / "own.yaml", settings=["model.backbone=evil:net"]).model.backbone == "evil:net"
    assert load_recipe({"data": "glyphs", "init": "evil.py:net"}).init == "evil.py:net"


def swap_backbone(package: Path) -> None:
    """Let a package name the stranger's code."""
    config = package / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "backbone": "evil:net"}))


@pytest.mark.parametrize("typed", ["conv-tiny", "own:net", "evil:other"])
def test_a_package_that_a_recipe_starts_from_runs_no_code(evil: Path, tmp_path: Path, typed: str) -> None:
    from holdfast.training.session import start_from

    Embedder("conv-tiny", dim=4).save_pretrained(tmp_path / "package")
    swap_backbone(tmp_path / "package")
    with pytest.raises(HoldfastError, match="would run the code 'evil:net', which the recipe does not name"):
        start_from(ModelConfig(backbone=typed, dim=4), str(tmp_path / "package"))
    with pytest.raises(HoldfastError, match="would run the code"):
        load_model(str(tmp_path / "package"))
    assert not evil.exists()


def test_the_code_that_was_typed_is_the_only_one_that_init_may_name(
    evil: Path, tmp_path: Path, tiny: dict[str, Any]
) -> None:
    own = "from torch import nn\ndef net(): return nn.Sequential(nn.AvgPool2d(8), nn.Flatten())\n"
    (tmp_path / "own_of_init.py").write_text(own)
    recipe = {**tiny, "epochs": 1, "model": {"backbone": "own_of_init:net", "dim": 8, "size": 16}}
    first = holdfast.train(recipe, out=tmp_path / "first")  # reads back its own package
    holdfast.train({**recipe, "init": str(first.folder)}, out=tmp_path / "second")
    swap_backbone(first.folder / "model")
    with pytest.raises(HoldfastError, match="would run the code 'evil:net'"):
        holdfast.train({**recipe, "init": str(first.folder)}, out=tmp_path / "third")
    assert not evil.exists()


def test_a_run_that_is_finished_again_runs_no_code(evil: Path, tmp_path: Path, tiny: dict[str, Any]) -> None:
    run = holdfast.train({**tiny, "epochs": 1}, out=tmp_path / "run")
    (run.folder / "evaluation.json").unlink()
    swap_backbone(run.folder / "model")
    with pytest.raises(HoldfastError, match="would run the code 'evil:net'"):
        holdfast.train({**tiny, "epochs": 1}, out=run.folder)
    assert not evil.exists()


def test_a_probe_of_a_studys_run_runs_no_code(evil: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Probe(function="spent")
    cell, store = Cell(arm="a", job=Training(recipe="pocket", measures=(probe,)), seed=0), Store(tmp_path / "studies")
    package = store.run(cell.job, 0) / "model"
    Embedder("conv-tiny", dim=4).save_pretrained(package)
    swap_backbone(package)
    monkeypatch.setattr(running, "_train", lambda *_: {"figures": {}, "series": {}})
    with pytest.raises(HoldfastError, match="would run the code 'evil:net'"):
        running.run_cell(cell, store, running.Places(device="cpu"))
    assert not evil.exists()


@pytest.mark.parametrize("model", ["evil:net", "evil.py:net"])
def test_a_report_of_a_strangers_audit_runs_no_code(evil: Path, tmp_path: Path, model: str) -> None:
    from holdfast.cli import main

    folder = tmp_path / "audit"
    folder.mkdir()
    document = {
        "schema": 1,
        "protocol": "ers",
        "mode": "fixed",
        "data": {"name": "glyphs"},
        "model": model,
        "metrics": {},
    }
    (folder / "audit.json").write_text(json.dumps(document))
    (folder / "recipe.yaml").write_text(yaml.safe_dump({"data": "glyphs", "model": {"backbone": model}, "init": model}))
    main(["report", str(folder)])
    assert not evil.exists()


def test_a_study_record_runs_no_code(evil: Path, tmp_path: Path) -> None:
    cell = Cell(arm="a", job=Computation(measure=Probe(function="spent")), seed=0)
    store = Store(tmp_path / "studies")
    recipe = {"model": {"backbone": "evil:net"}, "init": "evil.py:net"}
    store.write(cell, {"figures": {}, "series": {}, "recipe": recipe, "measures": {}, "model": "evil:net"})
    store.outcome(cell)
    store.missing(cell)
    assert not evil.exists()
