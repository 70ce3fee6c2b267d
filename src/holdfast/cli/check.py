"""Look for what is wrong with a dataset.

holdfast check --data folder:photos
"""

from __future__ import annotations

import argparse
import json

from holdfast.cli.parsing import Parser, shared


def arguments(sub: Parser) -> None:
    """Declare the options."""
    shared(sub, "--data", required=True)


def run(options: argparse.Namespace) -> None:
    """Print what is wrong."""
    from holdfast.data import check, load
    from holdfast.data.table import SkippedFiles

    images = load(options.data, skip_bad=True)  # what is missing is told among the other problems
    problems = check(images)
    if options.json:
        rows = [{"kind": p.kind, "what": p.what, "mend": p.how_to_mend} for p in problems]
        facts = {"data": options.data, "images": len(images), "skipped_files": images.skipped_files.counts()}
        print(json.dumps({**facts, "problems": rows}))
        return
    print("\n".join([str(images), *SkippedFiles(hidden=images.skipped_files.hidden).lines()]))
    for problem in problems:
        print(f"- {problem.kind}: {problem.what}\n  {problem.how_to_mend}")
    print(f"{len(problems)} kinds of problem" if problems else "nothing wrong")
