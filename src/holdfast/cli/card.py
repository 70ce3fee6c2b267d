"""Write the model card of a run, with its licence and title.

holdfast card runs/demo/hm --license apache-2.0 --title "Glyph search"
"""

from __future__ import annotations

import argparse

from holdfast.cli.parsing import CommandResult, Parser


def arguments(sub: Parser) -> None:
    """Declare the options."""
    sub.add_argument("folder", metavar="RUN", help="a run folder; the card is model/README.md in it")
    sub.add_argument("--license", metavar="ID", help="of the model, as the Hugging Face Hub names it: apache-2.0, mit")
    sub.add_argument("--title", help="heading of the card (default: loss and data)")
    sub.add_argument("--force", action="store_true", help="write over a card that was edited by hand")


def run(options: argparse.Namespace) -> CommandResult:
    """Write the card."""
    from holdfast.models import write_card

    file = write_card(options.folder, license=options.license, title=options.title, force=options.force)
    return {"file": str(file)}, f"written to {file}"
