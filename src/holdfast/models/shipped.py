"""Models that come with the package: `holdfast/NAME`, loaded without a network."""

from __future__ import annotations

from pathlib import Path

OWNER = "holdfast/"
FOLDER = Path(__file__).parent / "shipped"


def shipped_names() -> list[str]:
    """`holdfast/NAME` of each."""
    return sorted(OWNER + folder.name for folder in FOLDER.iterdir() if folder.is_dir()) if FOLDER.is_dir() else []


def shipped_folder(name: str) -> Path | None:
    """Where a shipped model lies; None of other names, and where a folder of that name is at hand."""
    return FOLDER / name.removeprefix(OWNER) if name in shipped_names() and not Path(name).exists() else None
