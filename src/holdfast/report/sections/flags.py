"""Reasons to doubt the figures, the serious ones first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.errors import plural
from holdfast.report.context import Absent, PageContext, Section
from holdfast.report.public import model_command, public_text
from holdfast.run_files import blocks, warning_lines
from holdfast.run_folder import RunFiles

LEVELS = {"error": "Do not trust", "warning": "Doubt", "note": "To know"}
SHOWN = 12
"""So many are read; the rest is folded."""


def all_flags(files: RunFiles) -> list[dict[str, str]]:
    """What the training warned of, and the flags of all audits, each once, the serious first."""
    told = [{"name": "training", "level": "warning", "why": line} for line in warning_lines(files.evaluation)]
    return flags_of([{"flags": told}, *files.all_audits.values()])


def flags_of(audits: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """The flags of these audits."""
    known: dict[tuple[str, str], dict[str, str]] = {}
    for document in audits:
        for flag in blocks(document, "flags"):
            plain = {key: public_text(flag.get(key, "")) for key in ("name", "level", "why", "advice")}
            plain["level"] = plain["level"] if plain["level"] in LEVELS else "note"
            known.setdefault((plain["name"], plain["why"]), plain)
    order = list(LEVELS)
    return sorted(known.values(), key=lambda flag: order.index(flag["level"]))


def count_serious(flags: list[dict[str, str]]) -> int:
    """How many are more than notes."""
    return sum(flag["level"] != "note" for flag in flags)


def show(context: PageContext) -> dict[str, Any]:
    """The flags with advice."""
    files, flags = context.files, all_flags(context.files)
    if not files.all_audits and not flags:
        raise Absent("not checked: an audit looks for signs that its figures mislead", model_command("audit", files))
    serious = count_serious(flags)
    if not flags:
        title = "Nothing suggests that these figures mislead"
    elif serious:
        title = f"{plural(serious, 'reason')} to read these figures with care"
    else:
        title = "Worth knowing before you read on"
    audit = "" if files.all_audits else model_command("audit", files)
    return {"title": title, "flags": flags[:SHOWN], "more": flags[SHOWN:], "levels": LEVELS, "audit": audit}


SECTION = Section("flags", "Reliability", show)
