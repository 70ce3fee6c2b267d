"""Find the distance below which two images show the same.

holdfast calibrate runs/demo/hm --data glyphs --far 1e-3 1e-4
"""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast.cli.parsing import MODEL_ON_DATA, CommandResult, Parser, model_from, rate, shared, writable
from holdfast.console import table
from holdfast.errors import plural


def arguments(sub: Parser) -> None:
    """Declare the options."""
    shared(sub, "--data", required=True)
    shared(sub, *MODEL_ON_DATA)
    sub.add_argument(
        "--far", type=rate, nargs="+", metavar="RATE", help="false acceptance (1e-3 1e-4, where there are enough pairs)"
    )
    sub.add_argument("--out", help="JSON file (default: artifacts/verification.json of a run)")


def run(options: argparse.Namespace) -> CommandResult:
    """Pair images, and find thresholds."""
    from holdfast.data import parse
    from holdfast.devices import choose_device
    from holdfast.files import write_json
    from holdfast.search import calibrate

    out = options.out or _place_in_run(Path(options.model))
    found = calibrate(
        model_from(options, choose_device(options.device)),
        options.data,
        options.far,
        split=options.split,
        batch=options.batch or 256,
        seed=options.seed or 0,
        skip_bad=options.skip_bad,
    )
    found = {"model": options.model, "data": parse(options.data), **found}
    if out:
        write_json(writable(out), found)
    rows = [
        [f"{t['far']:g}", f"{t['threshold']:.4f}", t["tar"], "{:.1f} – {:.1f}".format(*t["interval"]), t["accepted"]]
        for t in found["thresholds"]
    ]
    pairs = found["pairs"]
    words = (
        f"{table(['FAR', 'same below', 'TAR %', '95 % interval', 'false accepts'], rows)}\n"
        f"{pairs['positive']:,} positive and {plural(pairs['negative'], 'negative pair')} of "
        f"{plural(found['images'], 'image')} "
        f"({found['split']}); the smallest FAR they can estimate is {found['smallest_far']:.1e}"
    )
    return found, f"{words}\nwritten to {out}" if out else words


def _place_in_run(folder: Path) -> str | None:
    """Where a run keeps it; nowhere for other models."""
    from holdfast.files import inside
    from holdfast.run_folder import VERIFICATION_FILE

    return str(inside(folder, folder / VERIFICATION_FILE)) if (folder / "recipe.yaml").is_file() else None
