"""Recipes: everything a run depends on, in one YAML file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from holdfast.config import Block, block, instantiate, override, resolve
from holdfast.data import Augment, Reader, Sampler, parse, spellings
from holdfast.data.store import Cache
from holdfast.errors import RecipeError
from holdfast.extras import START, Extra, extended
from holdfast.losses import Loss, Memory
from holdfast.models import ModelConfig
from holdfast.models.compile_choice import Compile
from holdfast.models.names import is_user_code, published_start
from holdfast.regimes import Regime
from holdfast.training.lr_schedules import Schedule
from holdfast.training.optimizers import Optimizer
from holdfast.training.recipe_files import overlay, read_plain
from holdfast.training.robust_validation import RobustValidation
from holdfast.yaml_files import NotYaml, read_yaml

CODE_FILE = re.compile(r"\.py:")
"""In `file.py:function`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """A batch is `classes` × `per_class` images.

    With the sampler `pairs` it is `classes` pairs (`per_class: 2`): every image is an anchor once in an epoch, beside
    another of its class, and classes come as often as they have images.
    """

    classes: int = 28
    per_class: int = 4
    sampler: Sampler = "classes"

    def __post_init__(self) -> None:
        if self.classes < 2 or self.per_class < 2:
            raise ValueError("a batch needs at least 2 classes and 2 images per class")
        if self.sampler == "pairs" and self.per_class != 2:
            raise ValueError(f"batch.sampler: pairs needs batch.per_class: 2, not {self.per_class}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusteringConfig:
    """How many clusters the evaluation of a run makes: `factor` per class for NMI+, `clusters` in all for NMI."""

    factor: int = 10
    clusters: int | None = None

    def __post_init__(self) -> None:
        if self.factor < 1 or (self.clusters is not None and self.clusters < 1):
            raise ValueError("clustering.factor and clustering.clusters must be 1 or more")


SAME_IN_START = ("data", "init", "seed", "start")
"""Keys that a run and the one that comes first have in common; of the model, all but its BatchNorm policy."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """A checked recipe.

    Args:
        data: the images to learn from.
        model: backbone, dims, starting weights, BatchNorm policy.
        batch: classes per batch and images per class.
        augment: random views of the training images.
        init: a model to start from instead of `model.weights`. A run, package or hub id of the same backbone; where
            `model` leaves open how images are seen, or the activation, they are that model's. `timm:NAME@FILE` or
            `torchvision:NAME@FILE` stands for `model.backbone` and `model.weights`, and so does a FILE whose name
            begins with a backbone's.
        start: settings of a run that comes first, in the run folder's `start`, and whose model this one starts from:
            they are laid over this recipe with the standard regime and no extras. Of the model it may have another
            `batchnorm` policy. `start:` names its model in extras.
        loss: what is learnt.
        regime: how a batch becomes a loss.
        extras: what is added to the regime, each around it and those before: `holdfast list extras`.
        optimizer: and its learning rates.
        schedule: of the learning rate.
        epochs: passes over the training images; 0 keeps a fitted head (`model.head`) as it is.
        evaluate_every: epochs between evaluations on the validation classes.
        robust_validation: choose the model by R@1 under attack on the validation classes instead of by R@1; None for
            the latter.
        test_curve: as often, measure the test classes too, for the curve that papers plot and the best epoch that they
            publish; the curve never chooses a model.
        clustering: clusters of the final evaluation: `factor` per class for NMI+, `clusters` for NMI (as many as
            classes when left out).
        seed: of everything random.
        precision: `auto` is bfloat16 where the device is fast at it, float32 elsewhere.
        compile: run the network through `torch.compile`; `auto` does on a GPU where it saves more time than it takes.
            On a GPU steps are captured as CUDA graphs too, where that can be had; `false` leaves both out.
        clip: largest gradient norm; None leaves gradients as they are.
        accumulate: batches per update, whose learning rate is the mean of theirs.
        mining_groups: parts of a batch that are mined and learnt apart, gradients averaged: one device as several.
        on_collapse: `stop` when all embeddings gather in one point, keeping the last good model, or only `warn`.
        ema: decay of an average of the weights since training began, which is then evaluated and packaged; None for the
            plain ones.
        checkpoint_every: steps between checkpoints; None is at the ends of epochs, as often as writing them takes a
            twentieth of the time.
        log_every: steps between lines in metrics.jsonl.
        cache: where decoded images are kept: on the `device`, in `memory`, on `disk` in the cache folder, or `none`.
        trackers: experiment trackers that accelerate knows (tensorboard, wandb, ...).
    """

    data: Block[Reader]
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    init: str | None = None
    start: dict[str, Any] | None = None
    batch: BatchConfig = dataclasses.field(default_factory=BatchConfig)
    augment: Block[Augment] = dataclasses.field(default_factory=lambda: block(Augment, "none"))
    loss: Block[Loss] = dataclasses.field(default_factory=lambda: block(Loss, "multi-similarity"))
    regime: Block[Regime] = dataclasses.field(default_factory=lambda: block(Regime, "standard"))
    extras: list[Block[Extra]] = dataclasses.field(default_factory=list)
    optimizer: Block[Optimizer] = dataclasses.field(default_factory=lambda: block(Optimizer, "adam"))
    schedule: Block[Schedule] = dataclasses.field(default_factory=lambda: block(Schedule, "constant"))
    epochs: int = 100
    evaluate_every: int = 5
    robust_validation: RobustValidation | None = None
    test_curve: bool = False
    clustering: ClusteringConfig = dataclasses.field(default_factory=ClusteringConfig)
    seed: int = 0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: Compile = "auto"
    clip: float | None = None
    accumulate: int = 1
    mining_groups: int = 1
    on_collapse: Literal["stop", "warn"] = "stop"
    ema: float | None = None
    checkpoint_every: int | None = None
    log_every: int = 10
    cache: Cache = "auto"
    trackers: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.model.head and self.init:
            raise ValueError("model.head: whitened is fitted to a backbone's own features; leave out init")
        if self.epochs < (0 if self.model.head and self.start is None else 1):
            raise ValueError(f"epochs must be 1 or more, got {self.epochs}; 0 only where model.head is fitted")
        for name in ("evaluate_every", "accumulate", "mining_groups", "log_every", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, got {value}")
        if self.ema is not None and not 0 <= self.ema < 1:
            raise ValueError(f"ema is a decay in [0, 1), got {self.ema}")
        if self.clip is not None and self.clip <= 0:
            raise ValueError(f"clip is a gradient norm above 0, got {self.clip}")
        self._check_start()
        self._check_batch()
        for part in (self.data, self.augment, self.loss, self.regime, self.optimizer, self.schedule):
            part.build()  # an impossible value is refused now, not after the images are read

    def _check_start(self) -> None:
        """Refuse a first run that cannot be, and extras that name one where there is none."""
        if self.start is None:
            if any(START in extra.plain.values() for extra in self.extras):
                raise ValueError(f"extras: {START} is the model of the run before, and this recipe names none (start)")
            return
        if self.init:
            raise ValueError("start and init both say what training begins with; leave one out (start=null)")
        same = [key for key in self.start if key in SAME_IN_START]
        model = self.start.get("model", {})
        same += [f"model.{key}" for key in model if key != "batchnorm"] if isinstance(model, dict) else ["model"]
        if same:
            raise ValueError(f"start: {same[0]} is that of the run itself; leave it out")
        self.first()

    def first(self) -> Recipe | None:
        """The recipe of the run that comes first."""
        if self.start is None:
            return None
        own = self.plain() | {"start": None, "regime": "standard", "extras": []}
        built: Recipe = instantiate(Recipe, overlay(own, self.start), "start")
        return built

    def _check_loss(self, rows: int, extras: Sequence[Extra]) -> None:
        """Refuse a memory that so many rows of a batch do not fit into, and a loss that extras cannot deal with."""
        losses = [part for part in self.loss.build().modules() if isinstance(part, (Loss, Memory))]
        memory = min((part.size for part in losses if isinstance(part, Memory)), default=None)
        if memory is not None and memory < rows:
            raise ValueError(
                f"loss.memory ({memory}) must hold a batch (of a mining group) as regime {self.regime.name} makes it, "
                f"{rows} images or more"
            )
        inexact = any(not part.exact for part in losses if isinstance(part, Loss))
        once = any(not part.twice for part in losses if isinstance(part, Loss))
        for name, extra in zip((extra.name for extra in self.extras), extras, strict=True):
            if extra.repeats and memory is not None:
                raise ValueError(
                    f"extras: {name} computes the loss of a batch more than once, and loss.memory would remember "
                    "it as often; drop one"
                )
            if extra.differentiates and inexact:
                raise ValueError(
                    f"extras: {name} differentiates the gradient of the loss, and that of {self.loss.name} is "
                    "not the derivative of its value; choose another loss"
                )
            if extra.differentiates and once:
                raise ValueError(
                    f"extras: {name} differentiates the gradient of the loss, and that of {self.loss.name} has no "
                    "derivative in torch; choose another loss"
                )

    def _check_batch(self) -> None:
        """Refuse batches that mining groups cannot share, or that the regime cannot learn from."""
        added = [extra.build() for extra in self.extras]
        regime = extended(self.regime.build(), added)
        classes = self.batch.classes // self.mining_groups
        if self.batch.classes % self.mining_groups or classes < 2:
            raise ValueError(
                f"mining_groups ({self.mining_groups}) must cut batch.classes ({self.batch.classes}) into equal parts "
                "of 2 or more"
            )
        self._check_loss(regime.rows(classes * self.batch.per_class), added)
        if regime.replays > 1 and (self.accumulate > 1 or self.mining_groups > 1):
            raise ValueError(
                f"regime {self.regime.name} updates after every replay of a batch; leave accumulate and mining_groups "
                "at 1"
            )
        if regime.unit_vectors and not self.model.normalize:
            raise ValueError(f"regime {self.regime.name} needs unit vectors; set model.normalize: true")
        if self.batch.sampler == "pairs" and regime.least_classes > 2:
            raise ValueError(
                f"regime {self.regime.name} draws targets from {regime.least_classes - 1} other classes, and a batch "
                "of pairs promises none; set batch.sampler: classes"
            )
        if classes < regime.least_classes:
            raise ValueError(
                f"regime {self.regime.name} draws targets from {regime.least_classes - 1} other classes, and a batch "
                f"(of a mining group) has {classes} in all; ask for fewer targets or raise batch.classes"
            )

    def plain(self) -> dict[str, Any]:
        """Plain data with every default written out; `Recipe` of it is this recipe again."""
        resolved: dict[str, Any] = resolve(Recipe, self)
        return json.loads(json.dumps(resolved))  # type: ignore[no-any-return]  # tuples become lists, as in YAML

    def brief(self) -> dict[str, Any]:
        """Plain data without what equals its default: the same when a later version adds an argument somewhere."""
        return json.loads(json.dumps(resolve(Recipe, self, brief=True)))  # type: ignore[no-any-return]

    def yaml(self) -> str:
        """The resolved recipe as YAML."""
        return yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=True)

    def digest(self) -> str:
        """A short name for exactly this recipe."""
        return hashlib.sha256(json.dumps(self.plain(), sort_keys=True).encode()).hexdigest()[:12]


def load_recipe(
    recipe: str | Path | dict[str, Any] | Recipe,
    data: str | dict[str, Any] | None = None,
    settings: Sequence[str] = (),
    seed: int | None = None,
) -> Recipe:
    """A checked recipe.

    Args:
        recipe: a shipped name, a YAML file, plain data (both may name a `base`) or a recipe.
        data: in place of the recipe's: `glyphs`, `folder:DIR`, or a block. What the recipe says of its own dataset
            stays where only the place is another; fractions (`validation`, `train_fraction`) stay for any dataset.
        settings: `key.path=value` overrides; values are YAML.
        seed: replaces the recipe's seed.
    """
    plain = recipe.plain() if isinstance(recipe, Recipe) else read_plain(recipe)
    if isinstance(plain.get("data"), str):
        plain["data"] = parse(plain["data"])
    if data is not None:
        plain["data"] = _on_other_data(plain.get("data"), parse(data) if isinstance(data, str) else data)
    if "data" not in plain:
        raise RecipeError(f"no dataset; pass --data {' or '.join(spellings())}")
    if seed is not None:
        plain["seed"] = seed
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals or not path:
            raise RecipeError(f"--set takes key.path=value, got '{setting}'")
        try:
            override(plain, path.strip(), read_yaml(value))
        except NotYaml as error:
            raise RecipeError(f"--set {setting}: the value is not valid YAML ({error})") from error
    typed = [setting.partition("=")[0].strip() for setting in settings]
    _start_from_published(plain, typed)
    if isinstance(recipe, str | Path):
        _refuse_code(plain, str(recipe), typed)
    built: Recipe = instantiate(Recipe, plain)
    return built


FRACTIONS = ("validation", "validation_seed", "train_fraction", "fraction_seed")
"""Keys of a recipe's `data` that hold for any dataset."""


def _on_other_data(below: Any, above: dict[str, Any]) -> dict[str, Any]:
    """A dataset in the place of a recipe's own, with what the recipe says of datasets."""
    if not isinstance(below, dict):
        return above
    same = below.get("name") == above.get("name")
    return {key: value for key, value in below.items() if same or key in FRACTIONS} | above


def _start_from_published(plain: dict[str, Any], typed: Sequence[str]) -> None:
    """Let a published model that is named as `init` be the recipe's backbone and weights: it has no head of its own."""
    start = published_start(plain.get("init"))
    model = plain.get("model", {})
    if start is None or not isinstance(model, dict):
        return
    if twice := [key for key in ("model.backbone", "model.weights") if key in typed]:
        raise RecipeError(f"init: {plain['init']} is a backbone with weights; leave out --set {twice[0]}")
    plain["model"] = {**model, "backbone": start[0], "weights": start[1]}
    del plain["init"]


def _refuse_code(plain: dict[str, Any], recipe: str, typed: Sequence[str]) -> None:
    """Refuse a recipe file that names code to run: only the person who starts the run may."""
    model = plain.get("model")
    named = {"model.backbone": model.get("backbone") if isinstance(model, dict) else None, "init": plain.get("init")}
    for key, value in named.items():
        if isinstance(value, str) and key not in typed and (is_user_code(value) or CODE_FILE.search(value)):
            raise RecipeError(f"{recipe} would run the code '{value}'; if you trust it, add --set {key}={value}")
