"""How near robust R@1 comes to the `thorough` protocol, and what its ensemble costs beside the attacks of `ers`.

    python benchmarks/ensemble.py runs/demo/standard runs/demo/hm --data glyphs --limit 100 --json ensemble.json

Both look at the same images. Costs are those of one audit: passes and seconds of the nine attacks of `ers`, and of the
ensemble behind them, which attacks what they left.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from timing import write
from torch import nn

from holdfast import audit
from holdfast.audit.thorough import label
from holdfast.data import ImageTable

EPS = (2, 4, 8)
"""In 255ths; `thorough` goes through all of them on its way to the largest."""


def measure(model: str | nn.Module, data: str | ImageTable, limit: int) -> list[dict[str, Any]]:
    """A row per eps."""
    reference = audit.run(model, data, audit.Thorough(eps=max(EPS) / 255), limit=limit).document["metrics"]
    rows = []
    for eps in EPS:
        document = audit.run(model, data, audit.Ers(eps=eps / 255), limit=limit).document
        figures, robust = document["metrics"], document["robust"]
        row = {"model": str(model), "eps": eps, "images": document["images"]}
        row |= {key: figures[key] for key in ("R@1", "robust R@1", "ERS")}
        row["thorough"] = reference[f"{label(eps / 255)} R@1"]
        row["ers_seconds"] = sum(document["seconds"].values())
        row |= {"ensemble_seconds": robust["seconds"], "passes": robust["passes"], "broken_by": robust["broken_by"]}
        rows.append(row)
    return rows


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    figures = " ".join(f"{key} {row[key]:5.1f}" for key in ("R@1", "robust R@1", "thorough", "ERS"))
    cost = f"ers {row['ers_seconds']:.1f} s, ensemble {row['ensemble_seconds']:.1f} s ({row['passes']:,} passes)"
    return f"{row['model']:30s} {row['eps']}/255 on {row['images']} images: {figures}; {cost}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", default="glyphs")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    for model in arguments.models:
        found = measure(model, arguments.data, arguments.limit)
        print("\n".join(map(line, found)), flush=True)
        rows += found
    write(rows, arguments.json)


if __name__ == "__main__":
    main()
