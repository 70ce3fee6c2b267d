"""`holdfast list`."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
from collections.abc import Callable
from types import ModuleType

from holdfast.cli.parsing import Commands, command
from holdfast.cli.study import studies
from holdfast.console import listing


def add(commands: Commands) -> None:
    """Register the subcommand."""
    sub = command(commands, "list", run, "list what recipes can name", "holdfast list losses")
    sub.add_argument("what", choices=sorted(families()), metavar="FAMILY", help=", ".join(sorted(families())))


def run(options: argparse.Namespace) -> None:
    """Print names with a line each; recipes with the paper and table they belong to, as an object each in JSON."""
    entries = families()[options.what]()
    if options.json and options.what == "recipes":
        from holdfast.training.recipe_files import about

        print(json.dumps({name: dataclasses.asdict(about(name)) for name in entries}, ensure_ascii=False))
        return
    print(json.dumps(entries, ensure_ascii=False) if options.json else listing(entries))


def families() -> dict[str, Callable[[], dict[str, str]]]:
    """What can be listed, and how."""

    def registered(
        module: str, load: Callable[[str], ModuleType] = importlib.import_module
    ) -> Callable[[], dict[str, str]]:
        def entries() -> dict[str, str]:
            registry = load(module).registry
            return {name: registry.summary(name) for name in registry.names()}

        return entries

    def recipes() -> dict[str, str]:
        from holdfast.training.recipe_files import about, listed

        return {name: f"[{about(name).origin}] {about(name).summary}" for name in listed()}

    def direct_gradients() -> dict[str, str]:
        from holdfast.gradients.listing import entries

        return entries()

    def backbones() -> dict[str, str]:
        from holdfast.models.backbones import SUMMARIES

        return dict(SUMMARIES)

    return {
        "losses": registered("holdfast.losses.base"),
        "gradients": direct_gradients,
        "miners": registered("holdfast.mining.base"),
        "goals": registered("holdfast.attacks.base"),
        "regimes": registered("holdfast.regimes.base"),
        "destinations": registered("holdfast.regimes.hardness_schedules"),
        "protocols": registered("holdfast.audit"),
        "datasets": registered("holdfast.data"),
        "augmentations": registered("holdfast.data.augment"),
        "optimizers": registered("holdfast.training.optimizers"),
        "schedules": registered("holdfast.training.lr_schedules"),
        "studies": registered("base", studies),
        "recipes": recipes,
        "backbones": backbones,
    }
