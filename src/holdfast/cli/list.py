"""List what recipes can name.

holdfast list losses
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib

from holdfast.cli.parsing import CommandResult, Parser
from holdfast.cli.study import studies
from holdfast.console import listing

FAMILIES = {
    "losses": "holdfast.losses.base",
    "gradients": "holdfast.gradients.named",
    "miners": "holdfast.mining.base",
    "metrics": "holdfast.metrics.base",
    "goals": "holdfast.attacks.base",
    "regimes": "holdfast.regimes.base",
    "extras": "holdfast.extras.base",
    "destinations": "holdfast.regimes.hardness_schedules",
    "protocols": "holdfast.audit",
    "datasets": "holdfast.data",
    "augmentations": "holdfast.data.augment",
    "optimizers": "holdfast.training.optimizers",
    "schedules": "holdfast.training.lr_schedules",
    "recipes": "holdfast.training.recipe_files",
    "backbones": "holdfast.models.backbones",
    "studies": "base",
}
"""What can be listed, and the module that has its `registry`, or its `entries()`: name → line."""


def arguments(sub: Parser) -> None:
    """Declare the options."""
    sub.add_argument("what", choices=sorted(FAMILIES), metavar="FAMILY", help=", ".join(sorted(FAMILIES)))


def run(options: argparse.Namespace) -> CommandResult:
    """Names with a line each; in JSON, recipes are objects with the paper and table they belong to."""
    find = studies if options.what == "studies" else importlib.import_module
    module = find(FAMILIES[options.what])
    if hasattr(module, "entries"):
        entries = module.entries()
    else:
        entries = {name: module.registry.summary(name) for name in module.registry.names()}
    recipes = options.what == "recipes"
    return {name: dataclasses.asdict(module.about(name)) for name in entries} if recipes else entries, listing(entries)
