"""`holdfast evaluate`."""

from __future__ import annotations

import argparse
import json

from holdfast.cli.metrics_table import metrics_table
from holdfast.cli.parsing import Commands, command, common, model_and_data, positive, writable


def add(commands: Commands) -> None:
    """Register the subcommand."""
    sub = command(
        commands,
        "evaluate",
        run,
        "measure retrieval on labelled images",
        "holdfast evaluate runs/demo/hm --data glyphs",
    )
    model_and_data(sub)
    sub.add_argument("--factor", type=positive, default=10, help="clusters per class of NMI+ (default 10)")
    sub.add_argument("--clusters", type=positive, help="clusters of NMI (default: as many as classes)")
    common(sub, "also write the result to this JSON file")


def run(options: argparse.Namespace) -> None:
    """Print, and write if asked, the metrics of a model."""
    from holdfast.data import parse
    from holdfast.devices import choose_device
    from holdfast.evaluation import document, evaluate
    from holdfast.files import write_json
    from holdfast.models import load_model
    from holdfast.processes import joined

    with joined(choose_device(options.device)) as processes:
        result = evaluate(
            load_model(options.model, options.size, options.trust_code),
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
        return
    content = document(result, model=options.model, data=parse(options.data), seed=options.seed or 0)
    if options.out:
        write_json(writable(options.out), content)
    print(json.dumps(content) if options.json else metrics_table(content, every=True))
