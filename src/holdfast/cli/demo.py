"""`holdfast demo`."""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast.cli.parsing import Commands, command
from holdfast.console import Console


def add(commands: Commands) -> None:
    """Offer the command."""
    sub = command(commands, "demo", run, "train on embedded data and show what was learnt", "holdfast demo")
    sub.add_argument("--out", help="run folder (default: runs/demo)")


def run(options: argparse.Namespace) -> None:
    """Run the demo."""
    from holdfast.demo import demo

    demo(Path(options.out or "runs/demo"), Console(options.json), as_json=options.json)
