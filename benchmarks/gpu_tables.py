"""The tables of docs/benchmarks/gpu.md, from the JSON files of gpu.py beside it.

python benchmarks/gpu_tables.py docs/benchmarks
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- gpu_tables.py -->", "<!-- end -->"
NETWORKS = {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "mobilenetv2_100": "MobileNetV2",
    "vit_small_patch16_224": "ViT-S/16",
}
ROWS = {
    "standard": "standard",
    "mdprop": "MDProp, two extra sets",
    "adml": "ADML, 7 steps",
    "act": "ACT, η 8",
    "hm": "HM, η 8, 56 triplets",
    "ers": "the nine attacks of ERS, 5,924 images",
}
BARS: dict[str, dict[str, float]] = {
    "resnet18": {"standard": 0.80, "mdprop": 0.80, "adml": 0.85, "act": 0.90, "hm": 0.90, "ers": 60, "first": 8},
    "resnet50": {"standard": 0.85, "mdprop": 0.85, "adml": 0.85, "act": 0.90, "hm": 0.90, "ers": 145, "first": 15},
}
"""What a row should reach: a share of its ceiling; for ERS and first steps, seconds."""
REGIMES = {"standard": "standard", "hm": "HM", "mdprop": "MDProp"}


def tables(contents: list[dict[str, Any]]) -> str:
    """All tables, as Markdown."""
    found = [large_batches(contents), *[steps(content) for content in contents], first_steps(contents)]
    return "\n\n".join(table for table in found if table)


def large_batches(contents: list[dict[str, Any]]) -> str:
    """Images per second back to the pixels, in batches of 512."""
    lines = []
    for content in contents:
        row = rows_of(content).get("ceiling")
        if row:
            ways = (row.get(way) for way in ("float32", "bfloat16", "compiled", "blocked_compiled", "fused"))
            cells = " | ".join("–" if way is None else f"{way / 1000:.1f} k" for way in ways)
            lines.append(f"| {network(content)} | {cells} |")
    head = (
        "| images/s, batches of 512 | float32 | bfloat16 | compiled | blocked first layer, too | layers together, too |"
    )
    return table(head, lines)


def steps(content: dict[str, Any]) -> str:
    """The rows of one network."""
    known, bars, lines = rows_of(content), BARS.get(content["backbone"], {}), []
    for name, title in ROWS.items():
        row = known.get(name)
        if row is None or "ours" not in row:
            continue
        bar = bars.get(name)
        wanted = "" if bar is None else f"≤ {bar:.0f} s" if name == "ers" else f"≥ {percent(bar)}"
        cells = [
            title,
            duration(row["peers"]),
            duration(row["ours"]),
            f"{row['ratio']:.1f}",
            duration(row.get("ceiling")),
            percent(row.get("share")),
            wanted,
            percent(row["share_512"]),
            percent(row["share_512_blocked"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    head = (
        f"| {network(content)} | peers' way | ours | ratio | its passes alone | share | bar "
        "| share of 512 | of 512, blocked |"
    )
    return table(head, lines)


def first_steps(contents: list[dict[str, Any]]) -> str:
    """Seconds of first steps in a new process with graphs from the cache."""
    lines = []
    for content in contents:
        row = rows_of(content).get("first")
        if row and "each" in row:
            each = [row["each"].get(name) for name in REGIMES]
            cells = [f"{one['seconds']:.1f} s ({one['graphs']} graphs)" if one else "–" for one in each]
            bar = BARS.get(content["backbone"], {}).get("first")
            lines.append(f"| {' | '.join([network(content), *cells, '' if bar is None else f'≤ {bar:.0f} s'])} |")
    return table(f"| first step, cache warm | {' | '.join(REGIMES.values())} | bar |", lines)


def table(head: str, lines: list[str]) -> str:
    """A table, or nothing without lines."""
    return "\n".join([head, "| --- " * (head.count("|") - 1) + "|", *lines]) if lines else ""


def rows_of(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Rows by name."""
    return {row["row"]: row for row in content["rows"]}


def network(content: dict[str, Any]) -> str:
    """Its name in words."""
    return NETWORKS.get(content["backbone"], str(content["backbone"]))


def percent(share: float | None) -> str:
    """A share, or a dash."""
    return "–" if share is None else f"{100 * share:.0f} %"


def duration(seconds: float | None) -> str:
    """Milliseconds below a second."""
    if seconds is None:
        return "–"
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:,.0f} s"


def update(folder: Path) -> None:
    """Replace the tables of gpu.md by those of the files beside it."""
    files = [folder / f"gpu-{name}.json" for name in NETWORKS]
    contents = [json.loads(file.read_text()) for file in files if file.exists()]
    page = folder / "gpu.md"
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    if not after:
        raise SystemExit(f"{page} has no lines {BEGIN} and {END} to put tables between")
    page.write_text(f"{before}{BEGIN}\n\n{tables(contents)}\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where gpu.md and the JSON files are")
    update(parser.parse_args().folder)


if __name__ == "__main__":
    main()
