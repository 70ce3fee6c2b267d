"""Whose setting an arm runs in: the paper's, a shortened one, or ours; computed from recipes, not declared."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from holdfast.studies.jobs import Arm, Audit, Computation, Job, unplaced
from holdfast.studies.recorded import flat
from holdfast.training.recipe import load_recipe
from holdfast.training.recipe_files import about

Kind: TypeAlias = Literal["paper", "shortened", "stand-in", "ours", "pocket"]
KINDS: tuple[Kind, ...] = ("paper", "shortened", "stand-in", "ours", "pocket")
"""From the firmest ground to none."""

NEUTRAL = (
    *("seed", "evaluate_every", "test_curve", "checkpoint_every", "log_every", "cache", "trackers", "compile"),
    *("on_collapse",),
    *("data.root", "data.skip_bad", "data.validation_seed", "data.fraction_seed", "model.layout"),
)
"""Keys that change no training: where things lie, when to look, and what to keep."""

BACKBONE = ("model.backbone", "model.weights")
"""Keys in which a stand-in for the paper's backbone differs, with what it starts from."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """Whose setting an arm runs in.

    Args:
        kind: `paper` is the paper's own; `shortened` differs in length alone; `stand-in` in the backbone too, so that
            differences between arms can be judged and levels cannot; `ours` differs in anything else; `pocket` is small
            data and a small network.
        how: what differs.
    """

    kind: Kind
    how: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """For a table's cell."""
        if self.kind == "shortened":
            return f"shortened: {'; '.join(self.how)}"
        return {"paper": "the paper's", "stand-in": "stand-in backbone"}.get(self.kind, self.kind)

    def decides(self, levels: bool) -> bool:
        """Whether a paper's claim can be judged on it.

        Args:
            levels: the claim is about the height of a figure, and not about differences between arms.
        """
        return self.kind in ("paper", "shortened") or (self.kind == "stand-in" and not levels)


def setting(job: Job) -> Setting:
    """Of one job: its resolved recipe against the paper's, with what the source prints for its row."""
    lengths = [text for measure in job.measures if (text := _sample(measure))]
    if isinstance(job, Computation):
        return _of([*job.differs], [], lengths)
    known = about(job.recipe)
    if known.kind == "pocket":
        return Setting(kind="pocket")
    if known.kind == "ours":
        return Setting(kind="ours", how=(f"the recipe {job.recipe} is of no paper",))
    name = unplaced(job.data)["name"]
    other = [] if name in known.data else [f"data {name} for {' or '.join(known.data)}"]
    reference, own = _reference(known.tuned or job.recipe, name, json.dumps(job.row)), flat(job.resolved(0).plain())
    keys = [key for key in {**reference, **own} if key not in NEUTRAL and not key.startswith("data.name")]
    different: dict[str, tuple[Any, Any]] = {
        k: (own.get(k), reference.get(k)) for k in keys if own.get(k) != reference.get(k)
    }
    if job.start is not None:
        different.pop("init", None)
        other.append("it starts from a training of ours")
    if "epochs" in different:
        now, printed = different.pop("epochs")
        text = f"{now} of {printed} epochs" if now < printed else f"{now} epochs for {printed}"
        (lengths if now < printed else other).append(text)
    stand_in = [_told(key, *different.pop(key)) for key in BACKBONE if key in different]
    other += [_told(key, *values) for key, values in different.items()]
    return _of([*other, *job.differs], stand_in, lengths)


def joint(settings: Iterable[Setting]) -> Setting:
    """The weakest of several grounds, which is what a comparison of arms rests on."""
    every = list(settings)
    kinds = [one.kind for one in every]
    kind: Kind = max(kinds, key=KINDS.index) if kinds else "paper"
    return Setting(kind=kind, how=tuple(dict.fromkeys(text for one in every if one.kind == kind for text in one.how)))


def settings(arms: Iterable[Arm]) -> dict[str, Setting]:
    """Arm → whose setting it runs in."""
    return {arm.name: setting(arm.job) for arm in arms}


def _of(other: list[str], stand_in: list[str], lengths: list[str]) -> Setting:
    if other:
        return Setting(kind="ours", how=(*stand_in, *other, *lengths))
    if stand_in:
        return Setting(kind="stand-in", how=(*stand_in, *lengths))
    return Setting(kind="shortened" if lengths else "paper", how=tuple(lengths))


@functools.cache
def _reference(recipe: str, data: str, row: str) -> dict[str, Any]:
    """The paper's own recipe for a row, by dotted keys."""
    overrides = [f"{key}={json.dumps(value)}" for key, value in json.loads(row).items()]
    return flat(load_recipe(recipe, unplaced(data), overrides, 0).plain())


def _told(key: str, own: Any, printed: Any) -> str:
    return f"{key} {_value(own)} for {_value(printed)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return json.dumps(value)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _sample(measure: Any) -> str | None:
    """A measure that looks at a sample of what the source looks at."""
    if isinstance(measure, Audit):
        return None if measure.limit is None else f"{measure.protocol} audit of {measure.limit:,} images"
    limit = measure.arguments.get("limit")
    return None if limit is None else f"{measure.function} of {limit:,} images"
