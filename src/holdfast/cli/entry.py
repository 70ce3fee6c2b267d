"""Entry: parse, run, and turn every failure into one line."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import textwrap
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

from holdfast import console
from holdfast.cli.parsing import Parser
from holdfast.errors import HoldfastError, reason
from holdfast.version import __version__

COMMANDS = (
    *(
        "train",
        "evaluate",
        "embed",
        "index",
        "search",
        "serve",
        "calibrate",
        "audit",
        "report",
        "compare",
        "export",
        "card",
    ),
    *("check", "explain", "list", "demo", "study"),
)
"""Modules beside this one, in the order of `holdfast --help`.

Each has `arguments(sub)`, which declares its options, and `run(options)`, which returns what is printed, as plain data
and in words, or None; its docstring is its help: a sentence for the list of commands, then examples.
"""

TOGETHER = ("train", "evaluate", "embed", "index", "audit")
"""Commands that several processes do together; of any other, each would do and write all of it."""

WRITTEN = ("out", "onnx", "html", "bundle")
"""Options that say where something is written."""

GPU = ("out of memory", "ALLOC_FAILED")
"""What torch's errors say, by whichever library they come, where a device has no room left."""

HOST = "DefaultCPUAllocator"
"""What they say where the computer has none; Python's own and numpy's are `MemoryError`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it did what was asked, 2 with one line on standard error if the user must mend something.

    `check` ends with 1 where it found images that cannot be used.
    """
    options = parser().parse_args(arguments)
    warnings.filterwarnings("always", module=r"PIL\b")  # of every image: `holdfast check` counts them
    try:
        _refuse_several(options)
        with console.shown(not options.json and not options.quiet):
            answer = options.run(options)
        if answer is not None:
            print(json.dumps(answer[0]) if options.json else answer[1])
            return answer[2] if len(answer) == 3 else 0
    except KeyboardInterrupt:
        print("holdfast: interrupted; run the same command to go on from the last checkpoint", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `holdfast list losses | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        line = _line(error, options)
        if line is None:
            raise
        if options.debug:
            traceback.print_exc()
        print(line, file=sys.stderr)
        return getattr(error, "exit_code", HoldfastError.exit_code)
    return 0


def _line(error: Exception, options: argparse.Namespace) -> str | None:
    """One line on what a user can mend; None for a defect of holdfast."""
    if isinstance(error, HoldfastError):
        return f"holdfast: {error}"
    if isinstance(error, OSError):
        return f"holdfast: {_os_line(error, options)}"
    line = _memory_line(error, options)
    return line and f"\nholdfast: {line}"  # on a line of its own: a progress bar may leave none


def _refuse_several(options: argparse.Namespace) -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and options.command not in TOGETHER:
        raise HoldfastError("this command is for one process; start it without torchrun or accelerate launch")


def parser() -> Parser:
    """The whole command line."""
    top = Parser(prog="holdfast", description="Train, attack and audit image embeddings.")
    top.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = top.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True, parser_class=Parser
    )
    for name in COMMANDS:
        module = importlib.import_module(f"holdfast.cli.{name}")
        sentence, _, examples = (module.__doc__ or "").strip().partition("\n\n")
        sub = commands.add_parser(
            name,
            help=sentence[0].lower() + sentence[1:].rstrip("."),
            description=sentence,
            epilog="example:\n" + textwrap.indent(examples, "  "),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.add_argument("--json", action="store_true", help="one JSON object on standard output, nothing else")
        sub.add_argument("-q", "--quiet", action="store_true", help="results and errors only, no progress")
        sub.add_argument("--debug", action="store_true", help="show tracebacks")
        sub.set_defaults(run=module.run)
        module.arguments(sub)
    return top


def _os_line(error: OSError, options: argparse.Namespace) -> str:
    """One line on a file that cannot be read or written; the file asked for, not the one written aside of it."""
    what = error.strerror or reason(error)
    if error.errno is None:  # no file: a network client's
        return what
    named = error.filename2 or error.filename
    file = Path(os.fsdecode(named)) if isinstance(named, (str, bytes)) else None
    for option in WRITTEN:
        given = getattr(options, option, None)
        asked = Path(given or "")
        written = asked.name and (file is None or asked in file.parents or file.name == f".{asked.name}.tmp")
        if given and (asked == file or written):
            return f"{asked}: {what}; give another --{option}"
    return f"{file}: {what}" if file else what


def _memory_line(error: BaseException, options: argparse.Namespace) -> str | None:
    """One line if the error says that memory ran out, None if it is about something else.

    Args:
        error: what a command ended with.
        options: of the command.
    """
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and HOST in str(error)):
        whose = "the computer's memory"
    elif isinstance(error, RuntimeError) and any(sign in str(error) for sign in GPU):
        whose = "the GPU's memory"
    else:
        return None
    return f"{whose} ran out; {_advice(options)}; what was saved is kept"


def _advice(options: argparse.Namespace) -> str:
    free = "end what else uses it and run the same command again"
    if hasattr(options, "recipe"):
        return f"{free} to go on, or train in another --out with fewer images in a step, such as --set batch.classes=8"
    batch = getattr(options, "batch", 0)
    if batch == 1 or not hasattr(options, "batch"):
        return free
    return f"{free}, or with fewer images in a pass: --batch {(batch or 256) // 2}"
