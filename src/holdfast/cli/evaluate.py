"""Measure retrieval on labelled images.

holdfast evaluate runs/demo/hm --data glyphs
"""

from __future__ import annotations

import argparse
from typing import Any

from holdfast.cli.parsing import MODEL_ON_DATA, CommandResult, Parser, model_from, positive, shared, writable
from holdfast.console import figure, table
from holdfast.errors import harmless, plural
from holdfast.metric_info import MetricInfo
from holdfast.run_files import finite


def arguments(sub: Parser) -> None:
    """Declare the options."""
    shared(sub, "--data", required=True)
    shared(sub, *MODEL_ON_DATA)
    sub.add_argument("--factor", type=positive, default=10, help="clusters per class of NMI+ (default 10)")
    sub.add_argument("--clusters", type=positive, help="clusters of NMI (default: as many as classes)")
    sub.add_argument("--out", help="also write the result to this JSON file")


def run(options: argparse.Namespace) -> CommandResult | None:
    """Measure a model, and write the figures if asked."""
    from holdfast.data import parse
    from holdfast.devices import choose_device
    from holdfast.evaluation import document, evaluate
    from holdfast.files import write_json
    from holdfast.processes import joined

    with joined(choose_device(options.device)) as processes:
        result = evaluate(
            model_from(options),
            options.data,
            split=options.split,
            batch=options.batch or 256,
            device=options.device,
            skip_bad=options.skip_bad,
            seed=options.seed or 0,
            factor=options.factor,
            clusters=options.clusters,
        )
    if not processes.main:
        return None
    content = document(result, model=options.model, data=parse(options.data), seed=options.seed or 0)
    if options.out:
        write_json(writable(options.out), content)
    return content, metrics_table(content, every=True)


def metrics_table(content: dict[str, Any], every: bool = False) -> str:
    """The metrics of an evaluation, perhaps a stranger's; those that its metrics say matter most, or every one."""
    from holdfast.report.formatting import described

    values, known = content["metrics"], described(content)
    names = [name for name, info in known.items() if name in values and _matters(name, info, values[name])]
    names += [name for name in values if name not in names] if every else []
    rows = [(name, figure(values[name], known[name].digits if name in known else None)) for name in names]
    lines = table(["metric", "value"], rows)
    reasons = "".join(f"\n{name}: {why}" for name, why in content["undefined"].items() if name in names)
    skipped = f"\n{plural(len(content['skipped']), 'unreadable image')} left out" if content["skipped"] else ""
    best = content.get("best_on_test")
    if isinstance(best, dict) and (recall := finite(best.get("R@1"))) is not None:
        skipped += (
            f"\nbest on test: R@1 {figure(recall, 1)}, epoch {best.get('epoch')}; above: {content.get('reported')}"
        )
    return harmless(f"{plural(content['images'], 'image')} of the {content['split']} split\n{lines}{reasons}{skipped}")


def _matters(name: str, info: MetricInfo, value: Any) -> bool:
    """Whether the short table has it: columns of comparisons, percentages and warnings."""
    if name.startswith("coarse/"):
        return False
    return info.compared or (info.shown == "page" and (info.percent or isinstance(value, bool)))
