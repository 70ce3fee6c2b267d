"""Look for what is wrong with a dataset; exit status 1 where images cannot be used.

holdfast check --data folder:photos
"""

from __future__ import annotations

import argparse

from holdfast.cli.parsing import CommandResult, Parser, shared
from holdfast.errors import harmless, plural


def arguments(sub: Parser) -> None:
    """Declare the options."""
    shared(sub, "--data", required=True)


def run(options: argparse.Namespace) -> CommandResult:
    """Look at every image."""
    from holdfast.data import check, load
    from holdfast.data.table import SkippedFiles

    images = load(options.data, skip_bad=True)  # what is missing is told among the other problems
    problems = check(images)
    rows = [{"kind": p.kind, "what": p.what, "mend": p.how_to_mend} for p in problems]
    facts = {"data": options.data, "images": len(images), "skipped_files": images.skipped_files.counts()}
    lines = [images.describe(), *SkippedFiles(hidden=images.skipped_files.hidden).lines()]
    lines += [f"- {problem.kind}: {problem.what}\n  {problem.how_to_mend}" for problem in problems]
    lines.append(f"{plural(len(problems), 'problem')}" if problems else "nothing wrong")
    return {**facts, "problems": rows}, harmless("\n".join(lines)), int(any(p.serious for p in problems))
