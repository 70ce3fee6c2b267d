"""What the commands share: parsers, common options, checked arguments."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import HoldfastError, unknown

if TYPE_CHECKING:
    import torch

    from holdfast.data import ImageTable
    from holdfast.models import Embedder
    from holdfast.search import Searcher


CommandResult: TypeAlias = tuple[Any, str] | tuple[Any, str, int]
"""What a command prints: with `--json` the first, to a person the second; and its exit status, if that is not 0."""

LAZY = {
    "{datasets}": ("holdfast.data", "spellings"),
    "{models}": ("holdfast.models", "spellings"),
    "{protocols}": ("holdfast.audit", "names"),
}
"""What a help text may name that only the library knows: functions that are asked when the text is shown."""


class _Store(argparse._StoreAction):
    """As usual, but several values that an option is given again are added to those before."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        several = self.nargs == "+" and option_string is not None
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), *values] if several else values)


class Parser(argparse.ArgumentParser):
    """Argument errors in one line, with the nearest valid word."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.register("action", None, _Store)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            named = action.option_strings[-1].lstrip("-") if action.option_strings else str(action.metavar).lower()
            self.error(unknown(named, str(value), action.choices))

    def error(self, message: str) -> Any:
        """One line, and out."""
        print(f"holdfast: {message}; see `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(2)

    def format_help(self) -> str:
        """The help text, with what the library knows filled in."""
        for action in self._actions:
            for word, (module, function) in LAZY.items():
                if action.help and word in action.help:
                    known = getattr(importlib.import_module(module), function)()
                    action.help = action.help.replace(word, ", ".join(known))
        return super().format_help()


def whole_number(text: str, least: int = 0) -> int:
    """A whole number, not below the least."""
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of {least} or more, got '{text}'")
    return value


non_negative, positive = whole_number, functools.partial(whole_number, least=1)


def rate(text: str) -> float:
    """A fraction that is neither nothing nor all."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a rate between 0 and 1, such as 0.01, got '{text}'")
    return value


def above_zero(text: str) -> float:
    """A number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above zero, got '{text}'")
    return value


SHARED: dict[str, dict[str, Any]] = {
    "model": {"metavar": "MODEL", "help": "{models}"},
    "--data": {"metavar": "DATA", "help": "{datasets}"},
    "--split": {"help": "train, val, test, query (against gallery) or all"},
    "--batch": {"type": positive, "help": "images per pass (default 256; audits on a GPU 512)"},
    "--size": {"type": positive, "help": "input size, for models that do not know their own"},
    "--trust-code": {"action": "store_true", "help": "let a package import its own module"},
    "--seed": {"type": int, "help": "of everything random"},
    "--device": {"help": "cpu, cuda or mps; by default the best there is"},
    "--skip-bad": {"action": "store_true", "help": "leave unreadable images out and report how many"},
    "--milvus": {
        "metavar": "PLACE",
        "help": "where Milvus is, for an index of that kind: FILE.db or http://HOST:19530",
    },
    "--no-images": {"action": "store_true", "help": "leave every image out, for private data"},
}
"""Options of several commands."""

MODEL_ON_DATA = ("model", "--split", "--batch", "--size", "--trust-code", "--seed", "--device", "--skip-bad")
"""Of the commands that show images to a model."""


def shared(sub: argparse._ActionsContainer, *names: str, **changes: Any) -> None:
    """Add options of `SHARED`; `changes` are what differs here, such as `help`."""
    for name in names:
        sub.add_argument(name, **{**SHARED[name], **changes})


def model_from(options: argparse.Namespace, device: torch.device | None = None, spec: str | None = None) -> Embedder:
    """The model that a command names, or `spec`, on a device."""
    from holdfast.models import load_model

    return load_model(spec or options.model, options.size, options.trust_code).to(device or "cpu")


def images_from(options: argparse.Namespace, data: str | ImageTable) -> tuple[ImageTable, bool]:
    """The images that a command is about, all unless `--split` says which, and whether bad ones are left out."""
    from holdfast.evaluation import choose_split, read_table

    table, skip_bad = read_table(data, options.skip_bad)
    return table.split(choose_split(table, options.split or "all")), skip_bad


def verdicts(sub: argparse._ActionsContainer) -> None:
    """Add the options that say how queries and matches are judged."""
    sub.add_argument(
        "--false-alarms", type=rate, default=0.01, metavar="RATE", help="clean queries marked as tampered with (0.01)"
    )
    sub.add_argument(
        "--far",
        type=rate,
        metavar="RATE",
        help="false acceptance at which a match is called the same (the first known)",
    )
    sub.add_argument(
        "--verification", metavar="FILE", help="thresholds that `holdfast calibrate` wrote (default: the index's own)"
    )


def searcher_from(options: argparse.Namespace, folder: Path) -> Searcher:
    """The index of a folder, ready to be asked as the options say."""
    from holdfast.search import Searcher, read_index, read_thresholds

    index = read_index(folder, milvus=options.milvus)
    if options.verification:
        facts = dataclasses.replace(index.model, thresholds=read_thresholds(Path(options.verification)))
        index = dataclasses.replace(index, model=facts)
    return Searcher(index, options.false_alarms, options.far)


def refuse_idle_milvus(options: argparse.Namespace, *folders: Path) -> None:
    """Refuse `--milvus` where no index of these folders is in Milvus."""
    from holdfast.search.kinds import MILVUS
    from holdfast.search.store import read_manifest

    if options.milvus and all(read_manifest(folder)["kind"] != MILVUS for folder in folders):
        refuse_idle(options, "--milvus", "the vectors are inside the index")


def refuse_idle(options: argparse.Namespace, names: str, reason: str) -> None:
    """Refuse options that would do nothing.

    Args:
        options: as given.
        names: of those that must not be, `--split --size`.
        reason: why they would do nothing.
    """
    for option in names.split():
        value = getattr(options, option[2:].replace("-", "_"))
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
