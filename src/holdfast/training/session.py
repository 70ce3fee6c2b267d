"""Everything a run works with, built from its recipe and restored from its checkpoint."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import Tensor, nn

from holdfast import console, seeds
from holdfast.config import Block
from holdfast.data import SAMPLERS, Batches, ImageStore, ImageTable
from holdfast.data.augment import Augment
from holdfast.data.splits import FEWEST_CLASSES
from holdfast.devices import choose_device
from holdfast.errors import DataError, ModelError, RecipeError, reason
from holdfast.evaluation import read_table
from holdfast.extras import START, Extra, extended, prepare
from holdfast.losses import Criterion
from holdfast.models import Embedder, ModelConfig, load_model
from holdfast.models.bank import batchnorm_layers
from holdfast.models.load import activation_of
from holdfast.models.weights import raw_bytes
from holdfast.processes import current_processes
from holdfast.regimes import Regime
from holdfast.training.checkpoint import Checkpoint, optimizer_tensors, restore_optimizer
from holdfast.training.folder import TrainingFolder
from holdfast.training.optimizers import Average
from holdfast.training.recipe import Recipe
from holdfast.view import View

MEMORY = "optimizer."
"""What the names of the optimiser's tensors begin with in a checkpoint."""


@dataclasses.dataclass
class Session:
    """The parts of a run.

    Args:
        model: the embedder that trains; `evaluated_model` is the one to evaluate.
        labels: class numbers of the training rows, 0..C-1, on the device.
        table: all the data, the validation classes split off.
        best: highest validation R@1 so far.
    """

    recipe: Recipe
    accelerator: Accelerator
    table: ImageTable
    store: ImageStore
    labels: Tensor
    batches: Batches
    augment: Augment
    model: Embedder
    criterion: Criterion
    regime: Regime
    optimizer: torch.optim.Optimizer
    average: Average | None
    skip_bad: bool
    best: float | None = None

    @property
    def device(self) -> torch.device:
        """Where training runs."""
        return torch.device(self.accelerator.device)

    @functools.cached_property
    def host_labels(self) -> Tensor:
        """The class numbers where no device has to be asked for them."""
        return self.labels.cpu()

    @functools.cached_property
    def images(self) -> str:
        """A short name for the images of all splits and their classes, whether or not they can be read."""
        rows = zip(self.table.ids, self.table.labels.tolist(), self.table.splits.tolist(), strict=True)
        text = "\n".join(f"{split} {label} {name}" for name, label, split in rows)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def evaluated_model(self) -> Embedder:
        """The averaged weights where the recipe asks for them, otherwise the model itself."""
        return self.average.model if self.average else self.model  # type: ignore[return-value]

    @property
    def precision(self) -> str:
        """What `auto` came to."""
        return "bfloat16" if self.accelerator.mixed_precision == "bf16" else "float32"

    def open_store(self, split: str, view: View | None = None) -> ImageStore:
        """The images of a split as the model sees them, or in another view."""
        seen = view or self.model.view
        return ImageStore(self.table.split(split), seen, self.device, self.recipe.cache, self.skip_bad)

    @property
    def _saved_modules(self) -> nn.ModuleDict:
        """What a checkpoint holds weights of; their names begin with these."""
        averaged = {"average": self.average} if self.average else {}
        return nn.ModuleDict({"model": self.model, "criterion": self.criterion, **averaged})

    def checkpoint(self, step: int, **state: Any) -> Checkpoint:
        """All that a resumed run needs, with more JSON-serialisable state; random states need none, see `seeds`."""
        memory = {MEMORY + name: tensor for name, tensor in optimizer_tensors(self.optimizer).items()}
        own = {"best": self.best, "regime": self.regime.state(), "images": self.images}
        return Checkpoint(step, {**self._saved_modules.state_dict(), **memory}, own | state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over a checkpoint of the same recipe on the same images."""
        if checkpoint.state.get("images", self.images) != self.images:  # an older checkpoint does not say
            raise ValueError("images, classes or splits are others")
        memory = {name: tensor for name, tensor in checkpoint.tensors.items() if name.startswith(MEMORY)}
        self._saved_modules.load_state_dict({k: v for k, v in checkpoint.tensors.items() if k not in memory})
        restore_optimizer(self.optimizer, {name.removeprefix(MEMORY): tensor for name, tensor in memory.items()})
        self.best = checkpoint.state["best"]
        self.regime.restore(checkpoint.state["regime"])


def build_session(
    recipe: Recipe, device: str | torch.device | None, skip_bad: bool = False, folder: Path | None = None
) -> Session:
    """Read the data and build model, loss, regime and optimiser.

    Args:
        recipe: what to build.
        device: `cpu`, `cuda`, `cuda:1`, `mps`, or None for the best there is.
        skip_bad: leave missing and unreadable images out instead of stopping, whatever the recipe says.
        folder: the run's, for the model of the run that came first, and for trackers that write files.
    """
    processes = current_processes()
    accelerator = make_accelerator(recipe, device, folder)
    table, skip_bad = read_table(recipe.data.plain, skip_bad)  # the flag is no part of the recipe
    torch.manual_seed(seeds.derive(recipe.seed, "weights"))
    first = _first(folder) if recipe.start is not None else None
    init = recipe.init or first
    model = start_from(recipe.model, init) if init else recipe.model.build()
    if processes.several and recipe.compile is True and model.batchnorm == "train":
        raise RecipeError(
            "compile: true cannot be had while several processes share BatchNorm statistics; leave it at auto, or "
            "freeze them (model.batchnorm: freeze-statistics)"
        )
    regime = extended(recipe.regime.build(), [_placed(extra, first).build() for extra in recipe.extras])
    add_sets(model, regime, recipe)
    augment = recipe.augment.build()
    learnt, view = table.split("train"), augment.stored(model.view)
    if view != model.view and all(min(size) <= model.view.canvas for size in learnt.sizes()):
        console.say(
            "warning: augment.canvas is of no use, as the shorter sides of images are no longer than model.canvas "
            f"({model.view.canvas}); use the original photographs, or leave it out"
        )
    store = ImageStore(learnt, view, accelerator.device, recipe.cache, skip_bad)
    console.say(store.describe())
    if store.skipped:
        console.say("skipped: " + ", ".join(image for image, _ in store.skipped[:5]))
    labels = torch.tensor(store.table.compacted(recipe.data.plain["labels"]), device=accelerator.device)
    if processes.several:
        processes.agree(exact_digest(store.table.ids, labels, model), "images, labels or first weights")
    classes = int(labels.max()) + 1
    if classes < FEWEST_CLASSES:
        beside = " and ".join(split for split in ("test", "val") if table.has(split))
        left = f"one class is left to train on{beside and f' beside those of {beside}'}"
        raise DataError(f"{table.name}: {left}, and training needs two; add classes")
    criterion = Criterion(recipe.loss.build(classes=classes, dim=model.dim, features=model.feature_dim))
    if criterion.loss.max_pooled:
        model.add_max_pooling()
    model.to(accelerator.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    criterion.to(accelerator.device)
    prepare(regime, model)
    model.train()  # before the optimiser is built: the BatchNorm policy decides which weights train
    return Session(
        recipe=recipe,
        accelerator=accelerator,
        table=table,
        store=store,
        labels=labels,
        batches=SAMPLERS[recipe.batch.sampler](
            labels.cpu(), recipe.batch.classes, recipe.batch.per_class, recipe.seed, recipe.mining_groups
        ),
        augment=augment.fitted(model.view),
        model=model,
        criterion=criterion,
        regime=regime,
        optimizer=recipe.optimizer.build().build(model, criterion),
        average=Average(model, recipe.ema) if recipe.ema is not None else None,
        skip_bad=skip_bad,
    )


def make_accelerator(recipe: Recipe, device: str | torch.device | None, folder: Path | None = None) -> Accelerator:
    """An accelerator of this run's own device and precision, whose trackers write into the run folder."""
    chosen = choose_device(device)
    on_gpu = chosen.type == "cuda"
    if chosen.index is not None and on_gpu:
        torch.cuda.set_device(chosen)  # accelerate takes the current one
    precision = recipe.precision
    if precision == "auto":
        precision = "bfloat16" if on_gpu and torch.cuda.is_bf16_supported() else "float32"
    AcceleratorState._reset_state(reset_partial_state=True)  # one process may train several recipes in turn
    try:
        accelerator = Accelerator(
            cpu=chosen.type == "cpu",
            mixed_precision="bf16" if precision == "bfloat16" else "no",
            log_with=recipe.trackers or None,
            project_dir=None if folder is None else str(folder),
            gradient_accumulation_steps=recipe.accumulate,
        )
    except (ValueError, ImportError) as error:
        raise RecipeError(f"trackers or precision: {error}") from error
    missing = set(recipe.trackers) - {str(getattr(tracker, "value", tracker)) for tracker in accelerator.log_with}
    if missing:  # accelerate would leave them out without a word
        raise RecipeError(f"trackers: {', '.join(sorted(missing))} cannot be used here; install it, or leave it out")
    return accelerator


def add_sets(model: Embedder, regime: Regime, recipe: Recipe) -> None:
    """Give every distribution of the regime a BatchNorm set, which starts as a copy of the clean one."""
    starts, name = regime.sets(), recipe.regime.name
    if starts and not any(batchnorm_layers(model.backbone)):
        raise RecipeError(
            f"regime {name} learns a BatchNorm set per distribution, and model.backbone {recipe.model.backbone} has no "
            "BatchNorm layers; choose another backbone, or regime: at or adml"
        )
    if any(start.fresh for start in starts) and model.batchnorm != "train":
        raise RecipeError(
            f"regime {name} starts the statistics of its BatchNorm sets from scratch, and model.batchnorm: "
            f"{model.batchnorm} would leave them there; use train"
        )
    if starts and model.batchnorm == "freeze":
        raise RecipeError(
            f"regime {name} learns a BatchNorm set per distribution, which model.batchnorm: freeze "
            "forbids; use train or freeze-statistics"
        )
    generator = seeds.generator(recipe.seed, "sets")
    for start in starts:
        model.bank.add(model.backbone, start, generator)


def _first(folder: Path | None) -> str:
    """Where the run that came first lies in another run's folder."""
    if folder is None:
        raise RecipeError("start: the run that comes first needs a folder; train this recipe with holdfast.train")
    return str(TrainingFolder(folder).first)


def _placed(extra: Block[Extra], first: str | None) -> Block[Extra]:
    """An extra that names the model of the run before by its folder."""
    return Block(extra.kind, {key: first if value == START else value for key, value in extra.plain.items()})


def start_from(config: ModelConfig, spec: str) -> Embedder:
    """A recipe's model with the weights of another run's of the same shape.

    What the recipe leaves open of how images are seen, and of the activation, is as in that model.

    Args:
        config: the recipe's. If its backbone is the user's own code, the other model may name that code and no other.
        spec: the other model.
    """
    other = load_model(spec, trust_code=config.backbone)
    own = activation_of(other)
    if config.activation not in (None, own):
        before = own or "the activation of its backbone"
        console.say(f"init: {spec} learnt with {before}, and goes on with model.activation: {config.activation}")
    model = config.build(like=other)
    try:
        model.load_state_dict(other.state_dict())
    except RuntimeError as error:
        line = f"init: {spec} has another backbone or size than this recipe's model ({reason(error)})"
        raise ModelError(line) from error
    return model


def exact_digest(ids: Sequence[str], labels: Tensor, model: Embedder) -> str:
    """A short name for exactly these images, labels and weights."""
    digest = hashlib.sha256("\n".join(ids).encode("utf-8", "surrogateescape"))
    for tensor in (labels, *model.state_dict().values()):
        digest.update(raw_bytes(tensor))
    return digest.hexdigest()
