"""Re-run a paper's claim and judge it by the numbers.

holdfast study A6 --scale pocket
holdfast study A2 A3 --scale paper --place cub=DIR --devices 0 --jobs auto --minutes 9 --bundle a.tar.gz
"""

from __future__ import annotations

import argparse
import importlib
from types import ModuleType

from holdfast.cli.parsing import Parser, above_zero, non_negative, positive, refuse_idle
from holdfast.errors import HoldfastError

PACKAGE = "holdfast_studies"
"""What does the work: in a clone, not in the wheel."""

AUTO = "auto"
"""As many jobs as a machine has use for."""


def arguments(sub: Parser) -> None:
    """Declare the options."""
    sub.add_argument("ids", nargs="+", metavar="ID", help="A1, H4, ... (`holdfast list studies`), or all")
    sub.add_argument("--scale", choices=("pocket", "paper"), metavar="SCALE", default="pocket", help="pocket or paper")
    sub.add_argument("--seeds", nargs="+", type=non_negative, metavar="N", help="in place of the study's own")
    sub.add_argument("--arm", nargs="+", metavar="NAME", help="run these arms only")
    sub.add_argument("--part", metavar="N/M", help="run the share of machine N of M")
    sub.add_argument("--jobs", type=_jobs, metavar="N", help="cells side by side, or auto: as many as pay (default)")
    sub.add_argument("--place", nargs="+", metavar="DATA=DIR", help="where a dataset lies: cub=DIR")
    sub.add_argument("--weights", nargs="+", metavar="BACKBONE=FILE", help="ImageNet weights: resnet50=FILE")
    sub.add_argument(
        *("--devices", "--device"),
        metavar="DEVICES",
        help="cpu, cuda, mps, or GPUs by number (0,1) that share the cells; by default the best there is",
    )
    sub.add_argument("--minutes", type=above_zero, help="then stop at a checkpoint; the same command goes on")
    sub.add_argument("--bundle", metavar="FILE", help="go on from this file, and pack records, runs and audits into it")
    sub.add_argument(
        "--bundle-limit", type=positive, metavar="MIB", help="size of that file; what does not fit is named"
    )
    sub.add_argument("--merge", nargs="+", metavar="DIR", help="first take over the --out folders of other machines")
    sub.add_argument("--out", default="runs/studies", help="folder for everything (default: runs/studies)")
    only = sub.add_mutually_exclusive_group()
    only.add_argument("--list", action="store_true", help="list the cells and what they wait for, run nothing")
    only.add_argument("--summary", action="store_true", help="judge what is finished, run nothing")


def run(options: argparse.Namespace) -> None:
    """Run what is missing; print tables and verdicts; write raw results, figures and a page."""
    running = "--jobs --weights --devices --minutes --bundle-limit"
    if options.list:
        refuse_idle(options, running, "--list runs nothing")
    if options.summary:
        refuse_idle(options, f"{running} --arm --part --place", "--summary runs nothing and judges whole studies")
    if options.bundle is None:
        refuse_idle(options, "--bundle-limit", "no --bundle is written")
    studies("command").run(options)


def _jobs(text: str) -> int | str:
    try:
        return text if text == AUTO else positive(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error} (or auto)") from None


def studies(module: str) -> ModuleType:
    """A module of the package of studies, by name: the library itself never imports it."""
    try:
        return importlib.import_module(f"{PACKAGE}.{module}")
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        raise HoldfastError("studies are not installed: run this in a clone of holdfast, after `make setup`") from None
