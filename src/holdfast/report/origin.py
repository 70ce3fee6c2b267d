"""Which model and which images a folder is about, as its own files say."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from holdfast.data import parse
from holdfast.errors import HoldfastError, ModelError
from holdfast.run_files import block, finite
from holdfast.run_folder import RunFiles, read_run

STEPS = 16
"""A page needs no more attack steps than this, even where the audit took more."""


@dataclasses.dataclass(frozen=True)
class Origin:
    """What the exhibits of a folder are made from.

    Args:
        model: what `load_model` takes.
        name: how a page calls it; for a run the name of its folder, which says nothing of the machine.
        data: block of the dataset.
        seed: of the run or the audit.
        split: the part of the data that was audited; None for what a paper would report.
        size: input size that the audit was told; None where the model knows its own.
        skip_bad: whether unreadable images were left out.
        eps: of the audit in pixel units; None where there was none.
        steps: of the attack.
        attacked: how many images the audit attacked; None where there was none.
    """

    model: str
    name: str
    data: dict[str, Any]
    seed: int
    split: str | None = None
    size: int | None = None
    skip_bad: bool = False
    eps: float | None = None
    steps: int = STEPS
    attacked: int | None = None


def find_origin(folder: Path, data: str | None = None, trust_code: bool = False) -> Origin:
    """The origin of a run (`recipe.yaml`) or of an audit (`audit.json`, or that of another protocol).

    Args:
        folder: the run or the audit.
        data: other images than those it names.
        trust_code: believe an audit that names a Python file as its model: the file will be run.
    """
    files = _whole(folder)
    name, audit = next(iter(files.current_audits.items()), ("audit.json", {}))
    named = parse(data) if data else _own_data(files)
    if named is None:
        file = folder / ("recipe.yaml" if files.recipe else name)
        raise HoldfastError(f"{file} does not say where its images are; give them with data")
    seed, budget = (files.recipe or audit).get("seed", 0), block(audit, "budget")
    eps, steps, attacked = finite(budget.get("eps_pixel")), budget.get("steps"), audit.get("images")
    common: dict[str, Any] = {
        "data": named,
        "seed": seed if isinstance(seed, int) else 0,
        "eps": eps if eps is not None and 0 < eps < 1 else None,  # 1 is no ball: a patch
        "steps": min(STEPS, steps) if isinstance(steps, int) and steps >= 1 else STEPS,
        "attacked": attacked if isinstance(attacked, int) and attacked >= 1 else None,
    }
    if files.recipe:
        return Origin(str(folder), files.name, **common)
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
        model,
        name=model,
        split=split if isinstance(split, str) and not data else None,
        size=size if isinstance(size, int) and size > 0 else None,
        skip_bad=bool(audit.get("skipped")),
        **common,
    )


def own_data(folder: Path) -> dict[str, Any] | None:
    """The images that a run or an audit names itself; None where it names none."""
    return _own_data(_whole(folder))


def _own_data(files: RunFiles) -> dict[str, Any] | None:
    """A block that names its dataset; one that was only ever in memory cannot be read again."""
    audits = [audit.get("data") for audit in files.current_audits.values()]
    own = parse(files.recipe.get("data") or {}) if files.recipe else next(iter(audits), None)
    return own if isinstance(own, dict) and isinstance(own.get("name"), str) else None


def _whole(folder: Path) -> RunFiles:
    """The files of a folder; what it is about cannot be told where its recipe or an audit is damaged."""
    files = read_run(folder)
    broken = [name for name in files.damaged if name.startswith(("audit", "recipe"))]
    if broken:
        raise HoldfastError(f"{folder}: damaged: {broken[0]}; delete it, and train or audit again")
    if not files.recipe and not files.current_audits:
        raise HoldfastError(f"{folder} is neither a run (recipe.yaml) nor an audit (audit.json)")
    return files
