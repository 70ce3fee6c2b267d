"""Which model and which images a folder is about, as its own files say."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, TypeGuard

from holdfast.data import parse
from holdfast.errors import HoldfastError, ModelError
from holdfast.run_files import parse_json
from holdfast.training.recipe_files import read_plain

STEPS = 16
"""Pictures need no more attack steps than this, even where the audit took more."""


@dataclasses.dataclass(frozen=True)
class Origin:
    """What the exhibits of a folder are made from.

    Args:
        model: what `load_model` takes.
        name: how a page calls it; for a run the name of its folder, which says nothing of the machine.
        data: block of the dataset.
        split: the part of it that was audited; None for what a paper would report.
        size: input size that the audit was told; None where the model knows its own.
        seed: of the run or the audit.
        skip_bad: whether unreadable images were left out.
        eps: radius of the audit in pixel units; None where there was none.
        steps: of the attack.
    """

    model: str
    name: str
    data: dict[str, Any]
    split: str | None
    size: int | None
    seed: int
    skip_bad: bool
    eps: float | None
    steps: int


def find_origin(folder: Path, data: str | None = None, trust_code: bool = False) -> Origin:
    """The origin of a run (`recipe.yaml`) or of an audit (`audit.json`, or that of another protocol).

    Args:
        folder: the run or the audit.
        data: other images than those it names.
        trust_code: believe an audit that names a Python file as its model: the file will be run.
    """
    audit = _audit(folder)
    if (folder / "recipe.yaml").is_file():
        recipe = read_plain(folder / "recipe.yaml")
        block = parse(data or recipe.get("data") or {})
        return Origin(
            model=str(folder),
            name=folder.resolve().name,
            data=_named(block, folder / "recipe.yaml"),
            split=None,
            size=None,
            seed=_seed(recipe),
            skip_bad=False,
            **_attack(audit),
        )
    if not audit:
        raise HoldfastError(
            f"{folder} is neither a run (recipe.yaml) nor an audit (audit.json); `holdfast train` or `audit` make one"
        )
    model = audit.get("model")
    if not isinstance(model, str):
        raise HoldfastError(f"the audit in {folder} does not name its model; audit again")
    if model.rpartition(":")[0].endswith(".py") and not trust_code:
        raise ModelError(
            f"the audit in {folder} names code ({model}) as its model; "
            "if you trust it, give --trust-code (trust_code=True)"
        )
    split, size = audit.get("split"), audit.get("size")
    return Origin(
        model=model,
        name=model,
        data=parse(data) if data else _named(audit.get("data"), folder / "audit.json"),
        split=split if isinstance(split, str) and not data else None,
        size=size if isinstance(size, int) and size > 0 else None,
        seed=_seed(audit),
        skip_bad=bool(audit.get("skipped")),
        **_attack(audit),
    )


def own_data(folder: Path) -> dict[str, Any] | None:
    """The images that a run or an audit names itself; None where it names none."""
    recipe = folder / "recipe.yaml"
    block = parse(read_plain(recipe).get("data") or {}) if recipe.is_file() else _audit(folder).get("data")
    return block if _is_named(block) else None


def audit_files(folder: Path) -> list[Path]:
    """The audits of a folder, that of the default protocol first; those that were moved aside are left out."""
    others = sorted(file for file in folder.glob("audit-*-*.json") if file.stem.count(".") == 0)
    return [file for file in (folder / "audit.json", *others) if file.is_file()]


def _audit(folder: Path) -> dict[str, Any]:
    """The first audit of a folder; nothing where there is none."""
    for file in audit_files(folder):
        try:
            found = parse_json(file.read_text("utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise HoldfastError(f"{file} is damaged; delete it and audit again")
        return found
    return {}


def _attack(audit: dict[str, Any]) -> dict[str, Any]:
    """Radius and steps of an audit, where it has usable ones."""
    budget = audit.get("budget")
    budget = budget if isinstance(budget, dict) else {}
    eps, steps = budget.get("eps_pixel"), budget.get("steps")
    usable = isinstance(eps, float) and math.isfinite(eps) and 0 < eps <= 1
    taken = steps if isinstance(steps, int) and steps >= 1 else STEPS
    return {"eps": eps if usable else None, "steps": min(STEPS, taken)}


def _seed(document: dict[str, Any]) -> int:
    seed = document.get("seed", 0)
    return seed if isinstance(seed, int) else 0


def _named(block: Any, file: Path) -> dict[str, Any]:
    """A block that names its dataset; one that was only ever in memory cannot be read again."""
    if not _is_named(block):
        raise HoldfastError(f"{file} does not say where its images are; give them with data")
    return block


def _is_named(block: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(block, dict) and isinstance(block.get("name"), str)
