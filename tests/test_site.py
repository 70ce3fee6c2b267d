"""The site is built without a warning, and its reference holds every public name."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site needs pip install '.[docs]'; `make docs` does that")

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = re.findall(r": api/(?!index)(\w+)\.md", (ROOT / "mkdocs.yml").read_text("utf-8"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(package: str, site: Path) -> None:
    page = (site / "api" / f"{package}.html").read_text("utf-8")
    module = importlib.import_module(f"holdfast.{package}")
    for name in module.__all__:
        listed = re.search(rf"<code>@?{name}\b", page) if name in ("build", "names", "register", "registry") else None
        assert listed or f'id="holdfast.{package}.{name}"' in page, name
    whole = "".join(file.read_text("utf-8") for file in (site / "api").glob("*.html"))  # one loss lies among gradients
    names = getattr(module, "names", None)
    if callable(names) and package != "gradients":  # `holdfast.models.names` is a module
        for name in names():
            assert re.search(rf"<h3[^>]*>\s*{re.escape(name)}\s*<", whole), name


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    elsewhere = re.compile(r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="https?:')
    for page in site.rglob("*.html"):
        assert not elsewhere.search(page.read_text("utf-8")), page
