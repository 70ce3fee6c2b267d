"""Every snippet of README, CONTRIBUTING and docs runs as a reader would run it."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import save_file

from holdfast import seeds
from holdfast.attacks.base import registry as goals
from holdfast.cli import main
from holdfast.extras.base import registry as extras
from holdfast.losses.base import registry as losses
from holdfast.mining.base import registry as miners
from holdfast.models import Embedder
from holdfast.regimes.base import registry as regimes
from holdfast.training import load_recipe
from small_photos import draw_photos

ROOT = Path(__file__).resolve().parents[1]
DOCS = [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reading"]  # parts of results pages
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS])
SNIPPET = re.compile(r'^```(\w+)(?: title="([\w.]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
RUN = "train --data folder:photos --init mobilenet_v2.safetensors --out runs/mine"
WEIGHTS = "mobilenet_v2.safetensors"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reader of all pages stands, with photos and the run that pages go on from."""
    folder = tmp_path_factory.mktemp("reader")
    draw_photos(folder)
    backbone = Embedder("torchvision:mobilenet_v2", dim=None, size=32).backbone.train()
    for _ in range(20):  # or BatchNorm statistics of no network would let nothing through
        backbone(torch.rand(8, 3, 32, 32, generator=seeds.generator(0, "statistics")))
    save_file(backbone.state_dict(), folder / WEIGHTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(smaller(RUN).split()) == 0
    return folder


def smaller(code: str) -> str:
    """The same with images of 32 px, where a page would show 224 to a pretrained model: a reader has minutes."""
    code = code.replace(f"--init {WEIGHTS}", f"--init {WEIGHTS} --set model.size=32")
    return code.replace(f'"init={WEIGHTS}"', f'"init={WEIGHTS}", "model.size=32"')


@pytest.fixture
def working_folder(reader: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same, entered; what a page registers must not reach the contract tests."""
    monkeypatch.chdir(reader)
    monkeypatch.syspath_prepend(str(reader))
    families: tuple[Any, ...] = (losses, goals, regimes, extras)
    before = [{name: registry.get(name) for name in registry.names()} for registry in families]
    yield reader
    for registry, members in zip(families, before, strict=True):
        registry._members.clear()
        registry._members.update(members)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_snippets_run(page: Path, working_folder: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "snippet"}
    for language, file, code in SNIPPET.findall(smaller(page.read_text("utf-8"))):
        if file:
            (working_folder / file).write_text(code, "utf-8")
        elif language == "python":
            exec(compile(code, page.name, "exec"), namespace)
        elif language == "sh":
            for line in code.splitlines():
                if line.startswith("holdfast "):
                    assert main(shlex.split(line, comments=True)[1:]) == 0, line
        if language == "yaml":
            load_recipe(yaml.safe_load(code))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(#[^)]+)?\)", page.read_text("utf-8")):
        file = page.parent / target if target else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            assert anchor[1:] in {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings}


def test_files_and_tests_named_beside_formulas_exist() -> None:
    rows = re.findall(r"^\|.*\|$", (ROOT / "docs" / "papers.md").read_text("utf-8"), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([\w/-]+\.(?:py|yaml)(?:::\w+)?)`", row)]
    assert len(named) > 60
    for name in named:
        path, _, test = name.partition("::")
        tested = Path(path).name.startswith("test_")
        folder = "tests" if tested else "src" if path.startswith("holdfast_studies/") else "src/holdfast"
        file = ROOT / folder / path
        assert file.is_file(), name
        assert f"def {test}(" in file.read_text("utf-8") if test else True, name


def test_every_formula_says_what_it_differs_from_the_paper_in() -> None:
    rows = re.findall(r"^\|.*\|$", (ROOT / "docs" / "papers.md").read_text("utf-8"), re.MULTILINE)
    heads = [number for number, row in enumerate(rows) if row.startswith("| in the paper |")]
    assert len(heads) >= 5
    for head in heads:
        columns = rows[head].count("|")
        assert rows[head].endswith("| differs from the paper in |")
        table = itertools.takewhile(lambda row: not row.startswith(("| in the paper", "| metric")), rows[head + 1 :])
        assert [row for row in table if row.count("|") != columns] == []


def test_files_named_in_the_table_of_tasks_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\|.*\|$", page.split("## Where to change what")[1].split("\n## ")[0], re.MULTILINE)[2:]
    assert len(rows) == 18
    for name in (name for row in rows for name in re.findall(r"`([\w./-]+\.(?:py|html|yaml))`", row)):
        if not {"NAME", "PAPER"} & set(re.findall("[A-Z]+", name)):
            assert (ROOT / "src" / "holdfast" / name).is_file(), name


def test_counts_of_the_readme_are_those_of_the_registries() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    assert f"{len(losses.names()) - 1} losses" in page  # without `gradient`, which is counted by its combinations
    assert f"{len(miners.names())} miners" in page
    assert f"{len(goals.names())} goals" in page
    assert len(regimes.names()) == 11  # with `standard`
    assert "ten adversarial [training regimes]" in page


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in DOCS:
        assert f" {page.relative_to(ROOT / 'docs').as_posix()}\n" in menu, page


def test_the_version_is_the_same_everywhere() -> None:
    from holdfast import __version__

    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    mention = re.compile(r"(?:`|^)make ([a-z-]+)", re.MULTILINE)
    named = {target for page in PAGES for target in mention.findall(page.read_text("utf-8"))}
    assert named >= {"demo", "test"}
    assert named <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def test_test_files_have_names_of_their_own() -> None:
    """Two of one name cannot be collected together."""
    names = [file.name for file in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))
