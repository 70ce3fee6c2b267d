"""Show a run or an audit as one HTML page.

holdfast report runs/demo/hm
"""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast.cli.parsing import CommandResult, Parser, positive, shared, writable
from holdfast.errors import HoldfastError, harmless


def arguments(sub: Parser) -> None:
    """Declare the options."""
    sub.add_argument("run_folder", metavar="RUN", help="a folder that `holdfast train` or `holdfast audit` wrote")
    shared(sub, "--no-images", "--device", "--trust-code")
    shared(sub, "--data", help="other images than the run's own: {datasets}")
    sub.add_argument("--out", help="the page (default: RUN/report.html)")
    sub.add_argument("--refresh", action="store_true", help="measure the model again even if nothing has changed")
    sub.add_argument(
        "--limit", type=positive, metavar="N", help="attack at most N queries for the page (200, or what the audit did)"
    )
    shared(sub, "--seed", help="of everything random (default: the run's)")


def run(options: argparse.Namespace) -> CommandResult:
    """Collect what the page shows if that is not there yet, then write the page."""
    from holdfast.files import write_atomic
    from holdfast.report.page import make
    from holdfast.run_folder import read_run

    folder, images = Path(options.run_folder), not options.no_images
    read_run(folder)  # whether it is a run at all, before any work
    reason = _collect(folder, images, options)
    page = make(folder, images)
    out = writable(options.out or str(folder / "report.html"))
    write_atomic(out, page.html)
    facts = {"report": str(out), "bytes": len(page.html.encode()), "missing": page.missing, "not_collected": reason}
    lines = [f"nothing could be collected of the model: {reason}"] if reason else []
    lines += [harmless(f"not on the page: {name} ({why})") for name, why in page.missing.items()]
    return facts, "\n".join([*lines, f"report: {out}"])


def _collect(folder: Path, images: bool, options: argparse.Namespace) -> str | None:
    """Make the exhibits where they are missing or old; why that was not possible, if it was not."""
    from holdfast.report import collect, is_current

    asked = options.refresh or options.data is not None or options.seed is not None or options.limit is not None
    if not asked and is_current(folder, images=images):
        return None
    try:
        same = {name: getattr(options, name) for name in ("data", "device", "seed", "limit", "trust_code")}
        collect(folder, images=images, **same)
    except HoldfastError as error:
        if asked:
            raise
        return str(error)
    return None
