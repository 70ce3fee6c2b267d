"""Reasons to doubt the figures, the serious ones first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.report.sections.base import Absent, Section, Source
from holdfast.report.sections.public import audit_command, public_text
from holdfast.run_folder import RunFolder

LEVELS = {"error": "Do not trust", "warning": "Doubt", "note": "To know"}
SHOWN = 12
"""So many are read; the rest is folded."""


def all_flags(files: RunFolder) -> list[dict[str, str]]:
    """The flags of all audits, each once, the serious first."""
    return flags_of((files.audit, *files.audits.values()))


def flags_of(audits: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """The flags of these audits."""
    known: dict[tuple[str, str], dict[str, str]] = {}
    for document in audits:
        listed = document.get("flags")
        for flag in listed if isinstance(listed, list) else ():
            if isinstance(flag, dict):
                plain = {key: public_text(flag.get(key, "")) for key in ("name", "level", "why", "advice")}
                plain["level"] = plain["level"] if plain["level"] in LEVELS else "note"
                known.setdefault((plain["name"], plain["why"]), plain)
    order = list(LEVELS)
    return sorted(known.values(), key=lambda flag: order.index(flag["level"]))


def flags(source: Source) -> Section:
    """The flags with advice."""
    files = source.files
    if not (files.audit or files.audits):
        raise Absent("not checked: an audit looks for signs that its figures mislead", audit_command(files))
    listed: list[dict[str, Any]] = [{**flag, "word": LEVELS[flag["level"]]} for flag in all_flags(files)]
    serious = sum(flag["level"] != "note" for flag in listed)
    if not listed:
        title = "Nothing suggests that these figures mislead"
    elif serious:
        title = f"{serious} {'reason' if serious == 1 else 'reasons'} to read these figures with care"
    else:
        title = "Worth knowing before you read on"
    return Section(title, {"flags": listed[:SHOWN], "more": listed[SHOWN:]})
