"""What a study does: arms of a comparison, each a model to train or a quantity to compute, once per seed."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from holdfast.data import parse
from holdfast.data.readers.base import registry as readers
from holdfast.extras import START
from holdfast.training.recipe import Recipe, load_recipe

Scale: TypeAlias = Literal["pocket", "paper"]
SCALES: tuple[Scale, ...] = ("pocket", "paper")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditMeasure:
    """Attacks on a trained model; its figures are stored as `PROTOCOL-MODE/KEY`, or `NAME/KEY`.

    Args:
        protocol: `ers`, `adml`, `stax`, `thorough` or `natural`.
        mode: `fixed`, `published` or `replaced`.
        limit: images attacked; None for all.
        split: of the data; None for what a paper would report.
        eps: in place of the protocol's own.
        settings: further arguments of the protocol.
        name: prefix of the figures; protocol and mode when left out.
        checks: measure robust R@1 and look for masked gradients, too; a measure without is served by one with them.
    """

    protocol: str = "ers"
    mode: str = "fixed"
    limit: int | None = None
    split: str | None = None
    eps: str | None = None
    settings: dict[str, Any] | None = None
    name: str | None = None
    checks: bool = False

    @property
    def prefix(self) -> str:
        """What its figures are stored under."""
        return self.name or f"{self.protocol}-{self.mode}"


@dataclasses.dataclass(frozen=True)
class Probe:
    """A registered function of a model and its data (or of neither); its figures are stored as `NAME/KEY`.

    Args:
        function: name in `holdfast_studies.probes`.
        arguments: its keyword arguments, plain data.
        name: prefix of the figures; the function's name when left out.
    """

    function: str
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    name: str | None = None

    @property
    def prefix(self) -> str:
        """What its figures are stored under."""
        return self.name or self.function


Measure: TypeAlias = AuditMeasure | Probe


@dataclasses.dataclass(frozen=True)
class Training:
    """Train a recipe, then measure the model. Its test metrics are stored by their plain names (`R@1`).

    Args:
        recipe: a shipped recipe.
        data: a dataset by its name (`glyphs`, `cub`); where its files lie is said when the study is run. A block
            (`{"name": "omniglot", "labels": "coarse"}`) sets further fields.
        row: dotted overrides of the recipe that the source itself prints for this row of its table.
        settings: dotted overrides of ours, laid over both.
        measures: what else to find out about the trained model.
        start: a training with the same seed, whose model stands for `START` in the overrides ({"extras": [{"name":
            "teacher", "model": START}]}); where none of them has it, this one, of the same network, starts from it.
        differs: what else is not as in the source, where no recipe shows it.
    """

    recipe: str
    data: str | dict[str, Any] = "glyphs"
    row: dict[str, Any] = dataclasses.field(default_factory=dict)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    measures: tuple[Measure, ...] = ()
    start: Training | None = None
    differs: tuple[str, ...] = ()

    def first(self, seed: int) -> Cell | None:
        """The cell that must be trained before."""
        return None if self.start is None else Cell(arm="start", job=self.start, seed=seed)

    def key(self, seed: int) -> str:
        """Name of its files."""
        return f"{self.recipe}-{self.identity(seed)}-s{seed}"

    def resolved(self, seed: int) -> Recipe:
        """The whole recipe, its dataset not yet placed; the model of `start` goes by the name of its cell."""
        return _resolved(self.recipe, json.dumps(self.data), self._settings(seed), seed)

    def flat(self, seed: int, brief: bool = False) -> dict[str, Any]:
        """The same by dotted keys; only what differs from defaults if brief."""
        return dict(_flat(self.recipe, json.dumps(self.data), self._settings(seed), seed, brief))

    def identity(self, seed: int) -> str:
        """A short name for this very training: equal in every study that asks for it, and in later versions too."""
        return _digest(self.recipe, json.dumps(self.data), self._settings(seed), seed)

    @property
    def datasets(self) -> set[str]:
        """Its own, and of what it starts from."""
        return {unplaced(self.data)["name"], *(self.start.datasets if self.start else ())}

    @property
    def fetched(self) -> str | None:
        """The architecture whose ImageNet weights it begins with (timm's tag left out), None where it has others."""
        own = {key: value for key, value in json.loads(self._settings(0)).items() if key.startswith("model")}
        model = _resolved(self.recipe, json.dumps(self.data), json.dumps(own), 0).model
        return model.backbone.partition(".")[0] if model.weights == "imagenet" else None

    def _settings(self, seed: int) -> str:
        first, text = self.first(seed), json.dumps({**self.row, **self.settings})
        if first is None:
            return text
        if json.dumps(START) not in text:
            text = json.dumps({**self.row, **self.settings, "init": START})
        return text.replace(json.dumps(START), json.dumps(first.key))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Computation:
    """Compute something without training: on a dataset, on a backbone's starting weights, or on nothing at all.

    Args:
        measure: what to compute.
        data: a dataset as in `Training`, or None.
        backbone: whose starting weights embed the images: `resnet50.tv_in1k`; None for no model.
        model: the rest of a recipe's model block, such as how the backbone sees images.
        differs: what is not as in the source, as no recipe shows it; empty where nothing is. It must be said of a
            computation on data or a backbone, or the setting counts as ours.
    """

    measure: Probe
    data: str | dict[str, Any] | None = None
    backbone: str | None = None
    model: Mapping[str, Any] | None = None
    differs: tuple[str, ...] | None = None

    @property
    def datasets(self) -> set[str]:
        """Its own, if any."""
        return set() if self.data is None else {unplaced(self.data)["name"]}

    @property
    def fetched(self) -> str | None:
        """The architecture whose ImageNet weights it looks at (timm's tag left out), if any."""
        return self.backbone and self.backbone.partition(".")[0]

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The one measure, as a training has many."""
        return (self.measure,)

    def key(self, seed: int) -> str:
        """Name of its files."""
        return f"{self.measure.function}-{self.identity(seed)}-s{seed}"

    def identity(self, seed: int) -> str:
        """A short name for this very computation."""
        model = [self.backbone, *([self.model] if self.model else [])]
        text = json.dumps([self.measure.arguments, self.data, *model, seed], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


Job: TypeAlias = Training | Computation


@dataclasses.dataclass(frozen=True)
class Arm:
    """One row of a comparison.

    Args:
        name: as tables and claims call it.
        job: what is done for it, once per seed.
        seeds: its own, where it does not need (or cannot afford) those of the study.
        reading: how something that the source leaves unsaid is read here ("ε normalised"); empty where nothing is.
    """

    name: str
    job: Job
    seeds: tuple[int, ...] | None = None
    reading: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One arm with one seed: the unit of work that is stored, resumed and shared out."""

    arm: str
    job: Job
    seed: int

    @property
    def key(self) -> str:
        """Name of its files."""
        return self.job.key(self.seed)


def measure_key(measure: Measure) -> str:
    """A name for this measure, whatever prefix a study gives it, and with or without checks."""
    own = {key: value for key, value in dataclasses.asdict(measure).items() if key not in ("name", "checks")}
    return json.dumps({key: value for key, value in own.items() if value is not None}, sort_keys=True)


def taken(record: Mapping[str, Any], measure: Measure) -> dict[str, Any] | None:
    """What a cell's record has of a measure; None where it lacks it, or the checks that are asked for."""
    found: dict[str, Any] | None = record.get("measures", {}).get(measure_key(measure))
    lacking = isinstance(measure, AuditMeasure) and measure.checks and found and not found.get("checks", True)
    return None if lacking else found


def called(arms: Iterable[Arm]) -> tuple[str, ...]:
    """Their names."""
    return tuple(arm.name for arm in arms)


def unplaced(data: str | dict[str, Any]) -> dict[str, Any]:
    """The block of a dataset, its own name in the place of a path."""
    block = {"name": data} if isinstance(data, str) else dict(data)
    return {**placed(block, block["name"]), **block}


def placed(block: dict[str, Any], place: str) -> dict[str, Any]:
    """The block of a dataset whose files lie in a place; embedded datasets need none."""
    name = block["name"]
    readers.get(name)
    needs = name not in EMBEDDED
    return {**block, **(parse(f"{name}:{place}") if needs else parse(name))}


EMBEDDED = ("glyphs", "digits")
"""Datasets that come with the package."""


@functools.cache
def _resolved(recipe: str, data: str, settings: str, seed: int) -> Recipe:
    """A recipe from JSON texts; kept, because cells are asked for their identity many times."""
    overrides = [f"{key}={json.dumps(value)}" for key, value in json.loads(settings).items()]
    return load_recipe(recipe, unplaced(json.loads(data)), overrides, seed)


def flat(plain: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested blocks by dotted keys: `{"model": {"dim": 128}}` is `{"model.dim": 128}`."""
    found: dict[str, Any] = {}
    for key, value in plain.items():
        name = f"{prefix}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, Mapping) and value else {name: value}
    return found


@functools.cache
def _flat(recipe: str, data: str, settings: str, seed: int, brief: bool) -> dict[str, Any]:
    resolved = _resolved(recipe, data, settings, seed)
    return flat(resolved.brief() if brief else resolved.plain())


@functools.cache
def _digest(recipe: str, data: str, settings: str, seed: int) -> str:
    brief = json.dumps(_resolved(recipe, data, settings, seed).brief(), sort_keys=True)
    return hashlib.sha256(brief.encode()).hexdigest()[:12]
