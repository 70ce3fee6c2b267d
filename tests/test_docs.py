"""Every snippet of README, CONTRIBUTING and docs runs as a reader would run it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli import main
from holdfast.losses.base import registry as losses
from holdfast.regimes.base import registry as regimes
from holdfast.training import load_recipe

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
SNIPPET = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def working_folder(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the reader stands, with photos beside."""
    monkeypatch.chdir(photos.parent)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.usefixtures("working_folder")
def test_snippets_run(page: Path) -> None:
    before = {registry: {name: registry.get(name) for name in registry.names()} for registry in (losses, regimes)}
    namespace: dict[str, Any] = {"__name__": "snippet"}
    try:
        for language, code in SNIPPET.findall(page.read_text("utf-8")):
            if language == "python":
                exec(compile(code, page.name, "exec"), namespace)
            elif language == "sh":
                for line in code.splitlines():
                    if line.startswith("holdfast "):
                        assert main(shlex.split(line, comments=True)[1:]) == 0, line
            elif language == "yaml":
                load_recipe(yaml.safe_load(code))
    finally:
        for registry, members in before.items():  # what a page adds must not reach the contract tests
            registry._members.clear()
            registry._members.update(members)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


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
