"""The files of an audit in its folder: who may write them, what they are called, what gives way to what."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from holdfast.files import inside
from holdfast.locks import locked
from holdfast.processes import current_processes
from holdfast.run_files import finite, parse_json

VECTORS = "vectors"
"""Key of what the clean vectors of all images come to, in a few numbers; absent from what older versions wrote."""
CLOSE = 0.01
"""How far these may be apart for rounding; images that another function embeds move them by about one."""
SAME = ("weights", "content", "split", VECTORS)
"""Keys in which audits of the same model and images agree."""


@contextmanager
def held(folder: Path | None, title: str) -> Iterator[None]:
    """Keep other audits of the protocol out of the folder: they would throw away each other's measurements.

    Args:
        folder: of the audit, which the main process alone has; None where nothing is written.
        title: protocol and mode; different ones may share a folder.
    """
    with ExitStack() as stack:

        def hold() -> None:
            if folder is not None:
                artifacts = inside(folder, folder / "artifacts")
                artifacts.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(artifacts / f".{title}.lock", f"the {title} audit in {folder}"))

        current_processes().tell(hold)
        yield


def audit_file(title: str) -> str:
    """`audit.json` for the default protocol, with protocol and mode in the name for the others."""
    return "audit.json" if title == "ers-fixed" else f"audit-{title}.json"


def alike(one: Mapping[str, Any], other: Mapping[str, Any], keys: Iterable[str]) -> bool:
    """Whether two descriptions of audits agree in some keys; vectors may differ by rounding."""
    return all(
        _close(one.get(key), other.get(key)) if key == VECTORS else one.get(key) == other.get(key) for key in keys
    )


def make_room(file: Path, document: Mapping[str, Any]) -> tuple[Path, Path | None]:
    """Where an audit is written, and where another one that was there went: evidence is never lost.

    One of another model, data, budget or subset is moved aside. A first look, or one without checks, is put aside
    itself where there is a full audit of the same model and images, whose figures are the better ones to quote.
    """
    there = _document(file)
    if there is None or alike(there, document, ("identity", VECTORS)):
        return file, None
    aside = (file.with_name(f"{file.stem}.{number}.json") for number in itertools.count(1))
    if _lesser(document) and not _lesser(there) and alike(there, document, SAME):
        mine = ("identity", VECTORS)
        return next(
            place for place in aside if (known := _document(place)) is None or alike(known, document, mine)
        ), None
    moved = next(place for place in aside if not place.exists())
    file.replace(moved)
    return file, moved


def _close(one: Any, other: Any) -> bool:
    if not isinstance(one, list) or not isinstance(other, list):
        return True
    both = itertools.zip_longest(one, other)
    return all((a := finite(x)) is not None and (b := finite(y)) is not None and abs(a - b) <= CLOSE for x, y in both)


def _lesser(document: Mapping[str, Any]) -> bool:
    """Whether a full audit would say more."""
    return document.get("quick") is True or document.get("checks") is False


def _document(file: Path) -> dict[str, Any] | None:
    """An audit, empty if it cannot be read; None where there is no file."""
    if not file.is_file():
        return None
    try:
        found = parse_json(file.read_text("utf-8"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
