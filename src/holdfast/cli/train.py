"""Train an embedding; the same command resumes.

holdfast train --data folder:photos --init mobilenet_v2.safetensors
holdfast train pocket --data glyphs
"""

from __future__ import annotations

import argparse

from holdfast.cli.evaluate import metrics_table
from holdfast.cli.parsing import CommandResult, Parser, shared
from holdfast.run_files import outcome_lines


def arguments(sub: Parser) -> None:
    """Declare the options."""
    words = "a name from `holdfast list recipes`, or a YAML file; left out, what suits data, device and weights at hand"
    sub.add_argument("recipe", metavar="RECIPE", nargs="?", help=words)
    shared(sub, "--data", "--seed", "--device", "--skip-bad")
    sub.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override, e.g. optimizer.lr=1e-4")
    start = "start from a run, a packaged model, a hub id, a weights file, timm:NAME or torchvision:NAME (with @FILE)"
    sub.add_argument("--init", "--weights", metavar="MODEL", help=start)
    sub.add_argument("--out", help="run folder (default: runs/RECIPE-DATA-sSEED)")


def run(options: argparse.Namespace) -> CommandResult | None:
    """Train."""
    from holdfast.processes import starts_first
    from holdfast.training import train

    settings = [*options.set, *([f"init={options.init}"] if options.init else [])]
    run = train(
        options.recipe,
        options.data,
        out=options.out,
        settings=settings,
        seed=options.seed,
        device=options.device,
        skip_bad=options.skip_bad,
    )
    if not starts_first():
        return None
    told = "".join(f"\n{line}" for line in outcome_lines(run.evaluation))
    words = f"{metrics_table(run.evaluation)}{told}\nrun: {run.folder}   model: {run.folder / 'model'}"
    return {"run": str(run.folder), **run.evaluation}, words
