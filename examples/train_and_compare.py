"""Train the same net plainly and against attacks, audit both, and write one page that compares them.

python examples/train_and_compare.py            about two minutes on two CPU cores
python examples/train_and_compare.py --fast     a few seconds; the figures mean little
"""

from __future__ import annotations

import argparse
from pathlib import Path

import holdfast
from holdfast import report

RECIPES = ("pocket", "at-pocket")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/compared"), help="folder for runs and page")
    parser.add_argument("--fast", action="store_true", help="few characters, two epochs, few attacks")
    options = parser.parse_args()

    data = {"name": "glyphs", "characters": 60 if options.fast else 626, "per_class": 6 if options.fast else 10}
    settings = ["epochs=2", "batch.classes=8"] if options.fast else ["epochs=12"]
    limit = 10 if options.fast else 100

    print(f"{'recipe':12} {'R@1':>6} {'robust R@1':>11} {'95 % interval':>16} {'ERS':>6}")
    for recipe in RECIPES:
        folder = options.out / recipe
        run = holdfast.train(recipe, data, out=folder, settings=settings)
        audit = holdfast.audit.run(str(folder), data, limit=limit, out=folder).document
        low, high = audit["intervals"]["robust R@1"]
        recall, robust, score = (
            run.evaluation["metrics"]["R@1"],
            audit["metrics"]["robust R@1"],
            audit["metrics"]["ERS"],
        )
        print(f"{recipe:12} {recall:6.1f} {robust:11.1f} {low:8.1f} to {high:4.1f} {score:6.1f}")

    page = options.out / "compare.html"
    report.compare([options.out / recipe for recipe in RECIPES], out=page)
    print(f"open {page}")


if __name__ == "__main__":
    main()
