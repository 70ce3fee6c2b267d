"""Whose setting an arm runs in: the paper's, a shortened one, or ours; computed from recipes, not declared."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from holdfast.training.recipe import load_recipe
from holdfast.training.recipe_files import About, about
from holdfast_studies.jobs import Arm, AuditMeasure, Computation, Job, Training, flat, unplaced

Kind: TypeAlias = Literal["paper", "shortened", "ours", "pocket"]
KINDS: tuple[Kind, ...] = ("paper", "shortened", "ours", "pocket")
"""From the firmest ground to none."""

NEUTRAL = (
    *("seed", "evaluate_every", "test_curve", "checkpoint_every", "log_every", "cache", "trackers", "compile"),
    *("on_collapse",),
    *("data.root", "data.skip_bad", "data.validation_seed", "data.fraction_seed", "model.layout"),
)
"""Keys that change no training: where things lie, when to look, and what to keep."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """Whose setting an arm runs in.

    Args:
        kind: `paper` is the paper's own; `shortened` differs in length alone; `ours` differs in anything else; `pocket`
            is small data and a small network.
        how: what differs.
        length: share of the paper's training.
    """

    kind: Kind
    how: tuple[str, ...] = ()
    length: float = 1.0

    @property
    def short(self) -> str:
        """For a table's cell."""
        if self.kind == "shortened":
            return f"shortened: {'; '.join(self.how)}"
        return "the paper's" if self.kind == "paper" else self.kind

    @property
    def decides(self) -> bool:
        """Whether a paper's claim can be judged on it."""
        return self.kind in ("paper", "shortened") and self.length >= LEAST


def setting(job: Job) -> Setting:
    """Of one job: its resolved recipe against the paper's, with what the source prints for its row."""
    samples = list(dict.fromkeys(text for measure in job.measures if (text := _sample(measure))))
    if isinstance(job, Computation):
        alone = job.data is None and job.backbone is None
        other = list(job.differs or ()) if alone or job.differs is not None else [UNCOMPARED]
        return _of(other, samples)
    known = about(job.recipe)
    if known.kind == "pocket":
        return Setting(kind="pocket")
    if known.kind == "ours":
        return Setting(kind="ours", how=(f"the recipe {job.recipe} is of no paper",))
    name = unplaced(job.data)["name"]
    different = _different(job, known, name)
    other = [] if name in known.data else [f"data {name} for {' or '.join(known.data)}"]
    if job.start is not None:
        different.pop("init", None)
        other.append("it starts from a training of ours")
    now, printed = different.pop("epochs", (1, 1))
    length = [f"{now} of {printed} epochs"] if now < printed else []
    other += [f"{now} epochs for {printed}"] if now > printed else []
    other += [_told(key, *values) for key, values in different.items()]
    return dataclasses.replace(_of([*other, *job.differs], [*length, *samples]), length=now / printed)


LEAST = 0.4
"""Share of the paper's training below which nothing is decided: early leads need not last."""
UNCOMPARED = "nobody has said how it differs from the paper's"
"""Of a computation on data or a backbone that declares nothing."""


def joint(settings: Iterable[Setting]) -> Setting:
    """What a comparison of arms rests on: the weakest of their grounds, and none where they were not treated alike."""
    every = list(settings)
    kind: Kind = max((one.kind for one in every), key=KINDS.index, default="paper")
    how = tuple(dict.fromkeys(text for one in every if one.kind == kind for text in one.how))
    if KINDS.index(kind) < KINDS.index("ours") and len({round(one.length, 2) for one in every}) > 1:
        return Setting(kind="ours", how=("arms of other shares of the paper's length", *how))
    return Setting(kind=kind, how=how, length=min((one.length for one in every), default=1.0))


def settings(arms: Iterable[Arm]) -> dict[str, Setting]:
    """Arm → whose setting it runs in."""
    return {arm.name: setting(arm.job) for arm in arms}


def _different(job: Training, known: About, data: str) -> dict[str, tuple[Any, Any]]:
    """Key → value here and in the paper's recipe, where they differ; of a block of another name, the name alone."""
    reference, own = _reference(known.tuned or job.recipe, data, json.dumps(job.row)), job.flat(0)
    spared = NEUTRAL if data in known.data else (*NEUTRAL, *(key for key in own if key.startswith("data.")))
    keys = [key for key in {**reference, **own} if key not in spared and own.get(key) != reference.get(key)]
    blocks = [key.removesuffix("name") for key in keys if key.endswith(".name")]
    inside = [key for key in keys if any(key.startswith(block) and key != f"{block}name" for block in blocks)]
    return {key: (own.get(key), reference.get(key)) for key in keys if key not in inside}


def _of(other: list[str], shorter: list[str]) -> Setting:
    if other:
        return Setting(kind="ours", how=(*other, *shorter))
    return Setting(kind="shortened" if shorter else "paper", how=tuple(shorter))


@functools.cache
def _reference(recipe: str, data: str, row: str) -> dict[str, Any]:
    """The paper's own recipe for a row, by dotted keys."""
    overrides = [f"{key}={json.dumps(value)}" for key, value in json.loads(row).items()]
    return flat(load_recipe(recipe, unplaced(data), overrides, 0).plain())


def _told(key: str, own: Any, printed: Any) -> str:
    return f"{key.removesuffix('.name')} {_value(own)} for {_value(printed)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return json.dumps(value)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _sample(measure: Any) -> str | None:
    """A measure that looks at a sample of what the source looks at."""
    if isinstance(measure, AuditMeasure):
        return None if measure.limit is None else f"{measure.protocol} audit of {measure.limit:,} images"
    limit = measure.arguments.get("limit")
    return None if limit is None else f"{measure.function} of {limit:,} images"
