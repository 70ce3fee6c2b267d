"""Small pictures on disk, and the shared datasets where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from pictures import Paint, painted

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture
def paint(tmp_path: Path) -> Paint:
    """Writes a picture below the test's folder, a new one each time unless a seed is given."""
    count = 0

    def write(name: str, seed: int | None = None, width: int = 24, height: int = 24) -> Path:
        nonlocal count
        count += 1
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        painted(1000 + count if seed is None else seed, width, height).save(path)
        return path

    return write


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the shared datasets are not here")
    return SHARED
