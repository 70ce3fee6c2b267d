"""Pages under docs/results, made again from the raw files there: `make results`.

    python tools/results.py docs/results [--take runs/studies]

`--take` first copies the raw files that `holdfast study` wrote into its `--out` folder.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from holdfast.files import write_atomic, write_json
from holdfast_studies import base, leaderboard
from holdfast_studies.jobs import SCALES
from holdfast_studies.page import load, order, write_page


def take(out: Path, results: Path) -> None:
    """Copy raw files of studies."""
    for scale in SCALES:
        for name in base.names():
            file = out / scale / f"{name}.json"
            if file.is_file():
                (results / "raw" / scale).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, results / "raw" / scale / file.name)


def write(results: Path) -> None:
    """All pages of a folder."""
    for scale in SCALES:
        raw = results / "raw" / scale
        write_page(scale, raw, results / f"{scale}.md", results / "figures" / scale, results / "reading")
    file = results / "leaderboard.json"
    records = leaderboard.joined(json.loads(file.read_text("utf-8")) if file.is_file() else [], ours(results))
    write_json(file, records)
    write_atomic(results / "leaderboard.md", leaderboard.page_text(records))


def ours(results: Path) -> list[dict[str, object]]:
    """Records of the studies whose models are listed, paper scale first."""
    records = []
    for scale in reversed(SCALES):
        for name in order(leaderboard.STUDIES):
            file = results / "raw" / scale / f"{name}.json"
            if file.is_file():
                records += leaderboard.from_results(base.get(name), scale, load(file).results)
    return records


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--take", type=Path, metavar="OUT")
    options = parser.parse_args()
    if options.take:
        take(options.take, options.results)
    write(options.results)


if __name__ == "__main__":
    main()
