"""Train three ways on embedded data, attack, and compare.

holdfast demo
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.parsing import CommandResult, Parser
from holdfast.console import table

if TYPE_CHECKING:
    from holdfast.demo import Demo

EXPLANATION = """\
R@1: in how many of 100 searches the nearest image is the same character.
robust R@1: in how many it still is whatever the attack, when no pixel changes by more than 8/255.
ERS: how little ten such attacks achieve on average; 100 is nothing at all.
All three have the same start, loss and epochs. A small net, a short training and few attacked images are
enough to see the difference; they are no benchmark."""


def arguments(sub: Parser) -> None:
    """Declare the options."""
    sub.add_argument("--out", default="runs/demo", help="folder of the runs and report.html (default: runs/demo)")
    sub.add_argument("--open", action="store_true", help="open the page in the browser at the end")


def run(options: argparse.Namespace) -> CommandResult:
    """Run the demo."""
    from holdfast.demo import demo

    done = demo(Path(options.out))
    if options.open:
        import webbrowser

        webbrowser.open(done.page.resolve().as_uri())
    return done.plain(), summary(done)


def summary(done: Demo) -> str:
    """The figures in a small table, how to read them, and where to go on."""
    rows = [
        (
            name,
            f"{m.recall:.1f}",
            "-" if m.robust is None else f"{m.robust:.1f}",
            f"{m.ers:.1f}",
            "{:.1f}-{:.1f}".format(*m.ers_interval),
            round(m.seconds),
        )
        for name, m in done.models.items()
    ]
    minutes, seconds = divmod(round(done.seconds), 60)
    return f"""
{table(["model", "R@1", "robust R@1", "ERS", "95 %", "training s"], rows)}

{EXPLANATION}

Done in {minutes} min {seconds} s. The page:  {done.page}
Next:  holdfast train --data folder:YOUR_PHOTOS --init torchvision:mobilenet_v2
       holdfast audit YOUR_MODEL --data folder:YOUR_PHOTOS
Watch an attack:  holdfast serve {" ".join(map(str, done.indexes))} --gallery glyphs"""
