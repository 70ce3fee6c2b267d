"""Pages under docs/results, made again from the raw files there: `make results`.

    python tools/results.py docs/results [--take runs/studies]

`--take` first takes over the raw files that `holdfast study` wrote into its `--out` folder. Seeds of an arm that were
run elsewhere and stand in docs/results already stay, as long as they count, and so do cells with more figures.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from holdfast.files import write_atomic, write_json
from holdfast_studies import base, leaderboard
from holdfast_studies.cards import STUDY, cards_text
from holdfast_studies.document import document
from holdfast_studies.document import write as write_raw
from holdfast_studies.jobs import SCALES
from holdfast_studies.overview import write_overview
from holdfast_studies.page import load, order, write_page
from holdfast_studies.results import Outcome, Results


def take(out: Path, results: Path) -> None:
    """Take over raw files of studies."""
    for scale in SCALES:
        for name in base.names():
            file, kept = out / scale / f"{name}.json", results / "raw" / scale / f"{name}.json"
            if file.is_file():
                kept.parent.mkdir(parents=True, exist_ok=True)
                new = load(file)
                found = joined(new.results, load(kept).results) if kept.is_file() else new.results
                planned = {arm: own["planned"] for arm, own in new.plain["arms"].items()}
                write_raw(kept, document(new.study, scale, found, planned))


def joined(new: Results, before: Results) -> Results:
    """New outcomes, and those from before of other seeds, or with figures that the new one of their seed lacks."""
    outcomes = {}
    for arm, own in new.outcomes.items():
        kept = {outcome.seed: outcome for outcome in before.outcomes.get(arm, [])}
        kept |= {outcome.seed: outcome for outcome in own if _fuller(outcome, kept.get(outcome.seed))}
        outcomes[arm] = [kept[seed] for seed in sorted(kept)]
    return Results(outcomes=outcomes)


def _fuller(new: Outcome, before: Outcome | None) -> bool:
    """Whether a new outcome has all that the one before has; one that stopped has nothing that a finished one lacks."""
    if before is None or bool(new.stopped) < bool(before.stopped):
        return True
    return before.figures.keys() <= new.figures.keys()


def write(results: Path) -> None:
    """All pages of a folder."""
    for scale in SCALES:
        raw = results / "raw" / scale
        found = write_page(scale, raw, results / f"{scale}.md", results / "figures" / scale, results / "reading")
        if scale == "paper":
            write_overview(results, found)
    finals = [results / "raw" / scale / f"{STUDY}.json" for scale in reversed(SCALES)]
    write_atomic(results / "cards.md", cards_text(load(file) for file in finals if file.is_file()))
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
