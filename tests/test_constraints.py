"""Every dependency is pinned: those that pyproject.toml names, and those that these bring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no reader of TOML")
requirements = pytest.importorskip("packaging.requirements")

ROOT = Path(__file__).resolve().parents[1]
OWN_PINS = ("nvidia-", "cuda-", "triton")
"""What torch brings for GPUs, each at the one version that torch itself names."""


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()]
    return {plain(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def named() -> list[str]:
    """What pyproject.toml asks for, extras and build included."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = content["project"]
    extras = [one for several in project["optional-dependencies"].values() for one in several]
    return [*content["build-system"]["requires"], *project["dependencies"], *extras]


def brought(wanted: list[str]) -> Iterator[tuple[str, str]]:
    """Every package that these bring here, directly or not, and who asked for it."""
    waiting, seen = [(requirements.Requirement(one), "pyproject.toml") for one in wanted], set()
    while waiting:
        asked, by = waiting.pop()
        if (asked.name, *asked.extras) in seen:
            continue
        seen.add((asked.name, *asked.extras))
        yield plain(asked.name), by
        try:
            lines = metadata.requires(asked.name) or []
        except metadata.PackageNotFoundError:  # an extra that is not installed here
            continue
        for more in map(requirements.Requirement, lines):
            if more.marker is None or any(more.marker.evaluate({"extra": extra}) for extra in ("", *asked.extras)):
                waiting.append((more, asked.name))


def test_every_dependency_has_one_exact_version() -> None:
    versions = pins()
    assert len(versions) > 50
    assert all(re.fullmatch(r"\d[\w.]*", version) for version in versions.values())
    loose = {name: by for name, by in brought(named()) if name not in versions and not name.startswith(OWN_PINS)}
    assert loose == {}


@pytest.mark.parametrize("line", named())
def test_a_pin_is_a_version_that_pyproject_accepts(line: str) -> None:
    asked = requirements.Requirement(line)
    assert asked.specifier.contains(pins()[plain(asked.name)], prereleases=True)


def test_the_wheel_holds_the_library_and_no_studies() -> None:
    setuptools = pytest.importorskip("setuptools")
    find = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]["find"]
    packages = setuptools.find_packages(str(ROOT / find["where"][0]), exclude=find["exclude"])
    assert "holdfast.cli" in packages
    assert {name.partition(".")[0] for name in packages} == {"holdfast"}
