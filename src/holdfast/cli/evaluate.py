"""Measure retrieval on labelled images.

holdfast evaluate runs/demo/hm --data glyphs
"""

from __future__ import annotations

import argparse

from holdfast.cli.metrics_table import metrics_table
from holdfast.cli.parsing import MODEL_ON_DATA, Answer, Parser, model_from, positive, shared, writable


def arguments(sub: Parser) -> None:
    """Declare the options."""
    shared(sub, "--data", required=True)
    shared(sub, *MODEL_ON_DATA)
    sub.add_argument("--factor", type=positive, default=10, help="clusters per class of NMI+ (default 10)")
    sub.add_argument("--clusters", type=positive, help="clusters of NMI (default: as many as classes)")
    sub.add_argument("--out", help="also write the result to this JSON file")


def run(options: argparse.Namespace) -> Answer | None:
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
