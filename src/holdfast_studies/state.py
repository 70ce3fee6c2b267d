"""How far a study is: which cells are done, what the others wait for, and what is known already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from holdfast.errors import HoldfastError, unknown
from holdfast_studies import base
from holdfast_studies.jobs import Cell, Scale
from holdfast_studies.page import order
from holdfast_studies.results import Results
from holdfast_studies.running import Places
from holdfast_studies.store import Store

ALL = "all"


def chosen(ids: Sequence[str], scale: Scale) -> list[base.Study]:
    """The studies of some ids, or all that have this scale.

    Args:
        ids: as typed; `all` stands for every one, and alone.
        scale: that they must have.
    """
    if ALL in (name.lower() for name in ids):
        if len(ids) > 1:
            raise HoldfastError(f"`{ALL}` is every study; leave the other names out, or leave out `{ALL}`")
        return [study for name in order(base.names()) if (study := base.get(name)).arms(scale)]
    studies = [base.get(name) for name in dict.fromkeys(name.upper() for name in ids)]
    for study in studies:
        if not study.arms(scale):
            raise HoldfastError(f"{study.id} has no {scale} scale; leave --scale {scale} out or name another study")
    return studies


def only_arms(cells: Sequence[Cell], arms: Sequence[str] | None) -> list[Cell]:
    """The cells of some arms; all where none are named."""
    names = dict.fromkeys(cell.arm for cell in cells)
    for arm in arms or ():
        if arm not in names:
            raise HoldfastError(unknown("arm", arm, names))
    return [cell for cell in cells if not arms or cell.arm in arms]


def check_weights(weights: Iterable[str], studies: Iterable[base.Study], scale: Scale) -> None:
    """Refuse files of weights that no arm would begin with.

    Args:
        weights: backbones that files are given for.
        studies: that were chosen.
        scale: of their arms.
    """
    used = {arm.job.fetched for study in studies for arm in study.arms(scale)} - {None}
    for name in weights:
        if name not in used:
            known = f"those used are {', '.join(sorted(map(str, used)))}" if used else "no arm uses ImageNet weights"
            raise HoldfastError(f"--weights {name}: no arm that was asked for begins with them; {known}")


def state(cell: Cell, store: Store, places: Places) -> str:
    """`done`, `stopped early`, what is left to do, or what it needs first."""
    missing = store.missing(cell)
    if missing == []:
        return "stopped early" if store.read(cell).get("stopped") else "done"
    if lacks := places.lacks(cell):
        return f"not run; needs {lacks}"
    return "missing" if missing is None else f"trained; {len(missing)} of {len(cell.job.measures)} measures missing"


def gathered(study: base.Study, scale: Scale, store: Store, seeds: tuple[int, ...] | None) -> Results:
    """What is known of a study: of the seeds asked for, and of all others that were run some time."""
    asked = {cell.seed for cell in study.cells(scale, seeds)}
    known = {int(found[1]) for file in store.records.glob("*.json") if (found := re.search(r"-s(\d+)$", file.stem))}
    return store.results(study.arms(scale), study.cells(scale, tuple(sorted(asked | known))))
