"""Audit every planted fake and every honest model, and write the figures that decide.

    python tools/calibration.py                       all, into docs/results/calibration.{json,md}
    python tools/calibration.py --only warp "HM"      some of them again, by kind or name
    python tools/calibration.py --models runs/zoo     keep the trained models there

The lists are those of the slow tests, in `tests/audit/zoo_fakes.py` and `tests/audit/zoo_models.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "audit")]

from zoo_audits import Calibration, Row  # noqa: E402
from zoo_fakes import FAKES, HELD_OUT, ROBUST  # noqa: E402
from zoo_models import HONEST, Trained, images  # noqa: E402

from holdfast.files import write_atomic, write_json  # noqa: E402

HEAD = """# Fakes and honest models

Every planted fake hides the gradient of a trained network and hardly changes its vectors; honest models differ in
training, architecture and number format. Slow tests audit both: each fake must raise an error, no honest model may.

`true` is R@1 against one who knows the disguise: adversaries of the network behind it, and gradients that pass the
disguise by (BPDA, written by hand for each). Glyphs, 40 attacked images, ε 8/255; figures are percent.
`python tools/calibration.py` makes this page.

Thresholds were set before fakes marked † were audited for the first time. No fake is what the reported attacks break
anyway, such as tanh(200 z), nor a JPEG round trip that passes no gradient at all: random search then leaves as little
as BPDA does, and the audit warns that it had to search.
"""
UNSEEN = {(fake.kind, fake.name) for fake in (*HELD_OUT, *ROBUST)}
"""Fakes that thresholds were not set by."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="kinds or names")
    parser.add_argument("--models", type=Path, help="folder of the trained models")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "calibration.md")
    options = parser.parse_args()
    file = options.out.with_suffix(".json")
    rows = {(row["kind"], row["name"]): row for row in json.loads(file.read_text("utf-8"))} if file.is_file() else {}
    with tempfile.TemporaryDirectory() as place:
        calibration = Calibration(Trained(options.models or Path(place)), images())
        for key, measure in work(calibration):
            if options.only and not {*key} & {*options.only}:
                continue
            row = measure()
            print(*key, f"claimed {row.claimed:.1f}, true {row.true}", *row.errors, sep=" | ", flush=True)
            rows[key] = dataclasses.asdict(row)
            write_json(file, ordered(rows))
    write_atomic(options.out, page(ordered(rows)))


def work(calibration: Calibration) -> Iterator[tuple[tuple[str, str], Callable[[], Row]]]:
    """Kind and name of every model, and how it is measured."""
    for fake in FAKES:
        yield (fake.kind, fake.name), lambda fake=fake: calibration.fake(fake)  # type: ignore[misc]
    for name in HONEST:
        yield ("", name), lambda name=name: calibration.honest(name)  # type: ignore[misc]


def ordered(rows: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of models that are still listed, in the order of the lists."""
    listed = [(fake.kind, fake.name) for fake in FAKES] + [("", name) for name in HONEST]
    return [rows[key] for key in listed if key in rows]


def page(plain: list[dict[str, Any]]) -> str:
    """The page."""
    rows = [Row(**row) for row in plain]
    fakes, honest = [row for row in rows if row.kind], [row for row in rows if not row.kind]
    flagged, alarms = sum(bool(row.errors) for row in fakes), sum(bool(row.errors) for row in honest)
    kinds = len({row.kind for row in fakes})
    lines = [
        HEAD,
        f"**Errors: {flagged} of {len(fakes)} fakes of {kinds} kinds, {alarms} of {len(honest)} honest models.**",
        "",
        "## Fakes",
        "",
        "| kind | fake | R@1 bare → fake | ES:R / LTM / GTM | true | error |",
        "| --- | --- | --- | --- | ---: | --- |",
        *(_fake(row) for row in fakes),
        "",
        "## Honest models",
        "",
        "| model | R@1 | ES:R / LTM / GTM | flags |",
        "| --- | ---: | --- | --- |",
        *(_honest(row) for row in honest),
    ]
    return "\n".join(lines) + "\n"


def _fake(row: Row) -> str:
    why = "; ".join(f"`{name}`: {row.flags[name][1]}" for name in row.errors) or "**none**"
    name = f"{row.name} †" if (row.kind, row.name) in UNSEEN else row.name
    return f"| {row.kind} | {name} | {row.bare:.0f} → {row.clean:.0f} | {_reported(row)} | {row.true:.0f} | {why} |"


def _honest(row: Row) -> str:
    flags = ", ".join(f"**{name}**" if name in row.errors else name for name in row.flags)
    return f"| {row.name} | {row.clean:.0f} | {_reported(row)} | {flags} |"


def _reported(row: Row) -> str:
    return " / ".join(f"{value:.0f}" for value in row.reported)


if __name__ == "__main__":
    main()
