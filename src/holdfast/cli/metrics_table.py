"""Figures as the terminal shows them."""

from __future__ import annotations

from typing import Any

from holdfast.console import figure, table
from holdfast.errors import harmless
from holdfast.run_files import finite

HEADLINES = ("R@1", "R@2", "R@4", "R@8", "R@10", "R@100", "mAP", "mAP@R", "mAP@C", "NMI", "NMI+", "collapsed")


def metrics_table(content: dict[str, Any], every: bool = False) -> str:
    """The metrics of an evaluation, perhaps a stranger's; its headlines, or every one."""
    values = content["metrics"]
    names = [name for name in HEADLINES if name in values]
    names += [name for name in values if name not in names] if every else []
    lines = table(["metric", "value"], [(name, figure(values[name])) for name in names])
    reasons = "".join(f"\n{name}: {why}" for name, why in content["undefined"].items() if name in names)
    skipped = f"\n{len(content['skipped'])} unreadable images left out" if content["skipped"] else ""
    best = content.get("best_on_test")
    if isinstance(best, dict) and (recall := finite(best.get("R@1"))) is not None:
        skipped += f"\nbest on test: R@1 {figure(recall)}, epoch {best.get('epoch')}; above: {content.get('reported')}"
    return harmless(f"{content['images']:,} images of the {content['split']} split\n{lines}{reasons}{skipped}")
