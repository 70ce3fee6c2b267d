"""Docstrings in the house form for mkdocstrings: formulas as they are typed, notes as paragraphs."""

from __future__ import annotations

import re

import griffe

NOTE = re.compile(r"^(Requirements|Relations|Reference): ")
FORMULA = re.compile(r"^[^.]{0,40}\s=\s.*[(Σ·²|']|^[A-Z]\(.*[+λ]")


class HouseDocstrings(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Called once for every class, function and module."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(docstring: str) -> str:
    """Notes in bold, with their continued lines; formulas in blocks of their own."""
    lines: list[str] = []
    in_note = False
    for line in docstring.splitlines():
        if NOTE.match(line):
            # A paragraph each: without the empty line two notes in a row would run together.
            lines += ["", NOTE.sub(r"**\1:** ", line)]
            in_note = True
        elif in_note and line.startswith(" "):
            lines.append(line.strip())
        elif FORMULA.match(line):
            lines += ["```text", line, "```"]
            in_note = False
        else:
            lines.append(line)
            in_note = False
    return "\n".join(lines)
