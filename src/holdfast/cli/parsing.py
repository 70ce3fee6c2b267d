"""What the commands share: parsers, common options, checked arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.errors import HoldfastError, unknown

DATA_HELP = (
    "glyphs, digits, folder:DIR, csv:FILE, images:DIR (without labels), "
    "cub:DIR, cars:DIR, sop:DIR, inshop:DIR, omniglot:DIR or mnist:DIR"
)
MODEL_HELP = (
    "a run folder, a packaged model, a hub id, timm:NAME, torchvision:NAME (with @FILE: weights from a file), "
    "file.py:function or onnx:FILE"
)


class Parser(argparse.ArgumentParser):
    """Argument errors in one line, with the nearest valid word."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            self.error(unknown(str(action.metavar).lower(), str(value), action.choices))

    def error(self, message: str) -> Any:
        """One line, and out."""
        print(f"holdfast: {message}; see `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(2)


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What a command is added to."""


def command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], None], text: str, example: str
) -> Parser:
    """Add a command.

    Args:
        commands: where to.
        name: what the user types.
        run: does it.
        text: one line for the list of commands.
        example: a line that works.
    """
    sub = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=f"example:  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.add_argument("--json", action="store_true", help="one JSON object on standard output, nothing else")
    sub.add_argument("--debug", action="store_true", help="show tracebacks")
    sub.set_defaults(run=run)
    return sub


def common(sub: Parser, out: str) -> None:
    """Options of every command that reads images; `out` explains `--out`."""
    sub.add_argument("--seed", type=int, help="of everything random")
    sub.add_argument("--device", help="cpu, cuda or mps; by default the best there is")
    sub.add_argument("--skip-bad", action="store_true", help="leave unreadable images out and report how many")
    sub.add_argument("--out", help=out)


def model_and_data(sub: Parser) -> None:
    """A model, the images to show it, and how."""
    sub.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    sub.add_argument("--data", required=True, metavar="DATA", help=DATA_HELP)
    sub.add_argument("--split", help="train, val, test, query (against gallery) or all")
    sub.add_argument("--batch", type=positive, help="images per pass (default 256; audits on a GPU 512)")
    sub.add_argument("--size", type=positive, help="input size, for models that do not know their own")
    sub.add_argument("--trust-code", action="store_true", help="let a package import its own module")


def positive(text: str) -> int:
    """A whole number from 1."""
    return _whole(text, 1)


def non_negative(text: str) -> int:
    """A whole number from 0."""
    return _whole(text, 0)


def rate(text: str) -> float:
    """A share that is neither nothing nor all."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a rate between 0 and 1, such as 0.01, got '{text}'")
    return value


def _whole(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of {least} or more, got '{text}'")
    return value


def refuse_idle(given: dict[str, Any], reason: str) -> None:
    """Refuse options that would do nothing.

    Args:
        given: option → what was given for it, None or False where nothing was.
        reason: why it would do nothing.
    """
    for option, value in given.items():
        if value is not None and value is not False:
            raise HoldfastError(f"{option} has no effect here: {reason}; leave it out")


def writable(path: str, option: str = "--out") -> Path:
    """The path that an option names, its folder made."""
    out = Path(path)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HoldfastError(f"cannot create {out.parent}: {error.strerror}; give another {option}") from error
    return out
