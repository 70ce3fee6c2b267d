"""Draw what a direct gradient does.

holdfast explain best --run runs/gs --data glyphs
"""

from __future__ import annotations

import argparse

from holdfast.cli.parsing import CommandResult, Parser, shared, writable
from holdfast.errors import HoldfastError


def arguments(sub: Parser) -> None:
    """Declare the options."""
    sub.add_argument("rule", metavar="RULE", help="see `holdfast list gradients`; or '{pair: sig, mask: sc1}'")
    sub.add_argument("--run", dest="model", metavar="RUN", help="also show where this model's triplets lie")
    shared(sub, "--data")
    sub.add_argument("--out", help="png, svg or pdf file (default: RULE.png)")


def run(options: argparse.Namespace) -> CommandResult:
    """Draw a direct gradient."""
    import torch

    from holdfast.data import load
    from holdfast.evaluation import embed_splits
    from holdfast.gradients import explain
    from holdfast.gradients.rule import parse
    from holdfast.models import load_model

    if (options.model is None) != (options.data is None):
        raise HoldfastError("--run and --data belong together: a trained model, and the images to show it on")
    rule, embedded = parse(options.rule), {}
    if options.model is not None:
        model, images = load_model(options.model), load(options.data)
        embedded = embed_splits(model, images, torch.device("cpu"))
    explanation = explain(rule, embedded)
    out = writable(options.out or f"{explanation.name.replace(' × ', '-')}.png")
    explanation.save(out)
    return {"file": str(out), **explanation.plain()}, f"{explanation.name}: {out}"
