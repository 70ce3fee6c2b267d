"""An audit as a person reads it in the terminal."""

from __future__ import annotations

import textwrap
from typing import Any

from holdfast.console import figure, table

MEANINGS = {
    "R@1": "clean queries that find their class first",
    "CA+": "rank (percentile) of an image pushed up another's list: 50 is chance, 0 the top",
    "CA-": "rank (percentile) of an image pushed down a near list: 0 is unmoved",
    "QA+": "rank of a chosen image in a changed query's list: 50 is chance",
    "QA-": "rank of a near image pushed out by a changed query: 0 is unmoved",
    "TMA": "cosine between a changed query and a chosen image",
    "ES:D": "how far a changed query moves (0 to 2)",
    "ES:R": "R@1 after it moved",
    "LTM": "R@1 when other classes are pulled near",
    "GTM": "R@1 when the nearest wrong image is pulled near",
    "GTT": "queries that keep their best match in the top 4",
    "ERS": "the mean of the ten: 0 is defenceless, read beside R@1",
    "distance_all": "mean distance of random images",
    "effective_rank": "dimensions in use",
    "collapsed": "whether everything is near everything",
    "overlap": "images that another class's centre claims",
    "false_overlap": "of those, beside it, no nearer to an image of their class",
    "triplet/R@1": "R@1 when the loss of one triplet per image is raised",
    "alignment/R@1": "R@1 of images pushed away from their class",
    "uniformity/R@1": "R@1 of images pulled to all other classes",
    "stax/R@1": "R@1 of images that imitate one other class",
    "stax/success_rate": "imitations as near to their target as to their own class",
    "mtax/R@1": "R@1 of images that imitate five other classes",
    "mtax/success_rate": "imitations as near to all five targets as to their own class",
    "breaking_eps": "median of the smallest change per pixel that breaks a query",
}


def audit_table(document: dict[str, Any]) -> str:
    """Figures with intervals and meanings, then the flags with advice."""
    rows = []
    for key, value in document["metrics"].items():
        interval = document["intervals"].get(key)
        ends = f"{figure(interval[0])} to {figure(interval[1])}" if interval else ""
        rows.append((key, figure(value), ends, MEANINGS.get(key, "")))
    columns = ["figure", "value", "95 % interval", "meaning"]
    text = table(columns, rows, left=(3,))
    budget = document["budget"]
    eps = f"eps {255 * budget['eps_pixel']:.3g}/255 ({budget['eps_normalized']:.3g} normalised)"
    batches = document.get("settings", {}).get("batches")
    mode = f"{document['mode']}, batches {batches}" if batches else document["mode"]
    head = (
        f"{document['protocol']} ({mode}) on {document['images']:,} images against a gallery of "
        f"{document['gallery']:,}; {eps}, {budget['steps']} steps"
    )
    limited = "\nA subset was attacked: mind the intervals." if document["limit"] else ""
    return f"{head}{limited}\n{text}\n{_flags(document['flags'])}"


def _flags(flags: list[dict[str, Any]]) -> str:
    if not flags:
        return "No flags: nothing suggests that these figures mislead."
    lines = []
    for flag in flags:
        lines.append(f"{flag['level'].upper()} {flag['name']}: {flag['why']}.")
        lines.append(textwrap.indent(flag["advice"], "    "))
    return "\n".join(lines)
