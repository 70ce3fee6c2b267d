"""Reasons to doubt the figures, the serious ones first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.report.context import Absent, PageContext, Section, SectionContent
from holdfast.report.formatting import plural
from holdfast.report.public import audit_command, public_text
from holdfast.run_folder import RunFiles

LEVELS = {"error": "Do not trust", "warning": "Doubt", "note": "To know"}
SHOWN = 12
"""So many are read; the rest is folded."""


def all_flags(files: RunFiles) -> list[dict[str, str]]:
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


def show(context: PageContext) -> SectionContent:
    """The flags with advice."""
    files = context.files
    if not (files.audit or files.audits):
        raise Absent("not checked: an audit looks for signs that its figures mislead", audit_command(files))
    listed: list[dict[str, Any]] = [{**flag, "word": LEVELS[flag["level"]]} for flag in all_flags(files)]
    serious = sum(flag["level"] != "note" for flag in listed)
    if not listed:
        title = "Nothing suggests that these figures mislead"
    elif serious:
        title = f"{plural(serious, 'reason')} to read these figures with care"
    else:
        title = "Worth knowing before you read on"
    return SectionContent(title, {"flags": listed[:SHOWN], "more": listed[SHOWN:]})


SECTION = Section("flags", "Reliability", show)
