"""From a model and a table to a subject: clean embeddings, first checks, the images to attack."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from holdfast import console, seeds
from holdfast.attacks import Budget, References
from holdfast.attacks.forward import Precision
from holdfast.attacks.frozen import frozen
from holdfast.audit import flags as checks
from holdfast.audit.flags import Flag
from holdfast.audit.plan import Speed, TimeLimit
from holdfast.audit.sampling import balanced_rows, few_classes
from holdfast.audit.subject import Accompanied, Expectation, Subject
from holdfast.data import ImageStore, ImageTable
from holdfast.devices import free_memory
from holdfast.errors import DataError
from holdfast.evaluation import embed
from holdfast.models import Embedder, as_embedder, load_model
from holdfast.models.compile_choice import Compile, choose_compiling
from holdfast.models.compiled import CompiledPasses
from holdfast.models.embedder import Through
from holdfast.processes import current_processes

PROBED = (24, 4)
"""Classes, and images of each, that the first checks take."""
APART = 16
"""Of these, how many are also embedded two by two."""
ATTACKS = 9
"""Attacks of an audit, for a guess at its length: those of `ers`."""
GPU_BLOCK = 512
"""Images attacked together on a GPU, which small batches would leave idle."""
MOST = 2048
"""Images of a pass on a GPU, at most: of 18.7 ms for 512 with ResNet-18 on an H200, 1.4 do not depend on how many."""
WEIGHED = 64
"""Images whose pass tells how much memory one takes."""
HEAVIEST = 3 / 4
"""Of the memory that is free, what the heaviest pass may take."""
TIMED = 8
"""Images whose passes are timed on a CPU, where more at once are no faster."""


@dataclasses.dataclass(frozen=True)
class Execution:
    """How attacks are computed; nothing here changes what is asked of the model.

    Args:
        batch: images per pass, to bound memory; 256 when left out, on a GPU 512, and for attacks what its memory holds.
        precision: of crafting; `auto` is bfloat16 where the device is fast at it. What is measured afterwards, and
            the clean embeddings, are in float32 either way.
        compile: craft through `torch.compile`; `auto` does on a GPU where it saves more time than it takes.
    """

    batch: int | None = None
    precision: Precision | Literal["auto"] = "auto"
    compile: Compile = "auto"

    def images_per_pass(self, device: torch.device) -> int:
        """`batch`, or what suits the device."""
        return self.batch or (GPU_BLOCK if device.type == "cuda" else 256)

    def precision_on(self, device: torch.device) -> Precision:
        """`precision`, or what suits the device."""
        if self.precision != "auto":
            return self.precision
        return "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"


@dataclasses.dataclass(frozen=True)
class Selection:
    """Which images are attacked, and which are searched.

    Args:
        table: the images.
        split: which of them; `query` is searched in `gallery`, anything else in itself.
        limit: how many images to attack at most.
        seed: of everything random.
        skip_bad: leave unreadable images out.
        quick: a first look, with fewer steps and queries.
        time_limit: of the whole audit; embedding that would take longer is refused.
    """

    table: ImageTable
    split: str
    limit: int | None = None
    seed: int = 0
    skip_bad: bool = False
    quick: bool = False
    time_limit: TimeLimit | None = None

    @property
    def queries(self) -> ImageTable:
        """The images that may be attacked."""
        return self.table.split(self.split)


@contextmanager
def borrow_model(
    model: str | Path | nn.Module, size: int | None, trust_code: bool, device: torch.device, through_sets: bool = False
) -> Iterator[tuple[Embedder, list[Flag]]]:
    """A model as an embedder, frozen and on its device for the length of a block, and what was odd when it came."""
    if isinstance(model, (str, Path)):
        model = load_model(model, size, trust_code, sets=through_sets)
    raised = checks.training_mode(model)
    embedder = as_embedder(model, size)
    if not embedder.differentiable:
        raised.append(Flag("no-gradients", "the model gives no gradients, so only random search attacked it"))
    with _put_back(embedder), frozen(embedder):
        embedder.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        yield embedder, raised


@contextmanager
def _put_back(model: nn.Module) -> Iterator[None]:
    """Afterwards weights and buffers are where they were, on their device and in their layout."""
    values = [(tensor, tensor.data) for tensor in model.parameters()]
    buffers = [(part, name, buffer) for part in model.modules() for name, buffer in part._buffers.items()]
    try:
        yield
    finally:
        for tensor, value in values:
            tensor.data = value
        for part, name, buffer in buffers:
            part._buffers[name] = buffer


def make_subject(
    embedder: Embedder, selection: Selection, execution: Execution, through_sets: bool = False
) -> tuple[Subject, list[tuple[str, str]], list[Flag]]:
    """The subject of an audit, unreadable images that were left out, and flags of the first checks.

    Args:
        embedder: in eval mode (`frozen`), on its device.
        selection: the images.
        execution: images per pass.
        through_sets: prepare a subject for each auxiliary BatchNorm set, too.
    """
    device, seed = embedder.mean.device, selection.seed
    batch = execution.images_per_pass(device)
    store = ImageStore(selection.queries, embedder.view, device, skip_bad=selection.skip_bad)
    labels = torch.tensor(store.table.labels, device=device)
    if len(torch.unique(labels)) < 2:
        name = f"{selection.table.name} ({selection.split})"
        raise DataError(f"{name} holds one class; an attack needs another class to aim at")
    model, raised = _first_checks(embedder, store, labels, seed)
    lost = checks.gradients(embedder, store.inputs(torch.arange(2))) if embedder.differentiable else []
    gallery = None
    if selection.split == "query":
        gallery = ImageStore(selection.table.split("gallery"), embedder.view, device, skip_bad=selection.skip_bad)
    stores = [store] if gallery is None else [store, gallery]
    if selection.time_limit is not None:
        few = store.inputs(torch.arange(min(TIMED, len(store))))
        count, processes = sum(len(each) for each in stores), current_processes()
        seconds = Speed.measure(model, few, "float32", differentiable=False).forward * count / processes.world
        processes.tell(partial(selection.time_limit.refuse_embedding, count, seconds))
    subject = Subject(
        model=model,
        store=store,
        size=embedder.size,
        std=embedder.std,
        labels=labels,
        references=_references(model, stores, seed, batch),
        rows=balanced_rows(labels, selection.limit, seed).to(device),
        seed=seed,
        differentiable=embedder.differentiable and not lost,
        gallery=gallery,
        chunk=batch,
        digest=_digest([each.table for each in stores]),
        quick=selection.quick,
    )
    if through_sets:
        views = {name: Through(embedder, name) for name in embedder.bank.names()}
        called = {name: type(model)(view) if isinstance(model, Accompanied) else view for name, view in views.items()}
        sets = {
            name: dataclasses.replace(subject, model=view, references=_references(view, stores, seed, batch))
            for name, view in called.items()
        }
        subject = dataclasses.replace(subject, sets=sets)
    return subject, [entry for each in stores for entry in each.skipped], [*raised, *lost]


def speed_up(subject: Subject, budget: Budget, execution: Execution) -> Subject:
    """The same subject, attacked as fast as its device can.

    Args:
        subject: as `make_subject` prepares it.
        budget: of the main attack, from which the work is estimated.
        execution: precision of crafting, and whether to compile.
    """
    device = subject.references.device
    precision = execution.precision_on(device)
    work = len(subject.rows) * budget.steps * ATTACKS
    run = None
    if isinstance(subject.model, Embedder) and subject.differentiable:
        batch, half = execution.images_per_pass(device), precision == "bfloat16"
        choice = choose_compiling(execution.compile, subject.model, work, batch, half)
        if choice.saves:
            console.say(str(choice))
        run = CompiledPasses(subject.model) if choice.compiled else None
    subject = dataclasses.replace(subject, precision=precision, run=run)
    if device.type == "cuda":
        weighed = subject.images(subject.rows[:WEIGHED])
        chunk = execution.batch or fitting_batch(subject.model, weighed)
        subject = dataclasses.replace(subject, block=GPU_BLOCK, chunk=chunk)
    sets = {name: dataclasses.replace(view, precision=precision) for name, view in subject.sets.items()}
    return dataclasses.replace(subject, sets=sets)


def fitting_batch(model: nn.Module, images: Tensor) -> int:
    """How many images a GPU takes through a model and back at once.

    What is weighed is the heaviest pass of an audit, in full precision and not compiled: some goals begin with one, and
    probes of masked gradients take no other.

    Args:
        model: under audit, its weights frozen.
        images: some, on the GPU.
    """
    device = images.device
    pixels = images.detach().clone().requires_grad_()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    with torch.enable_grad():
        vectors = model(pixels)
    if vectors.requires_grad:
        torch.autograd.grad(vectors.sum(), pixels, allow_unused=True)
    del vectors
    taken = torch.cuda.max_memory_allocated(device) - before
    torch.cuda.empty_cache()
    return batch_in(HEAVIEST * free_memory(device), taken / len(images))


def batch_in(memory: float, each: float) -> int:
    """The largest of 2,048, 1,024, 512, … images that fit into a memory if each takes so much of it; one at least."""
    batch = MOST
    while batch > 1 and batch * each > memory:
        batch //= 2
    return batch


def measure_speed(subject: Subject, execution: Execution) -> Speed:
    """What passes of the subject's images take, of a few of them."""
    device = subject.references.device
    at_once = min(GPU_BLOCK if device.type == "cuda" else TIMED, execution.images_per_pass(device))
    images = subject.images(subject.rows[:at_once])
    return Speed.measure(subject.model, images, execution.precision_on(device), subject.differentiable)


def _references(model: Embedder | Accompanied | Through, stores: list[ImageStore], seed: int, batch: int) -> References:
    """Clean embeddings of the images that may be attacked and, where it is another set, of the gallery."""
    device = model.mean.device
    torch.manual_seed(seeds.derive(seed, "clean"))  # for randomised models
    vectors = [embed(model, store, batch).to(device) for store in stores]
    labels = [torch.tensor(store.table.labels, device=device) for store in stores]
    given = [store.table.groups for store in stores]
    groups = [None if each is None else torch.tensor(each, device=device) for each in given]
    if len(stores) == 1:
        return References(vectors[0], labels[0], groups=groups[0])
    return References(
        vectors[1], labels[1], groups=groups[1], queries=vectors[0], query_labels=labels[0], query_groups=groups[0]
    )


def _digest(tables: list[ImageTable]) -> str:
    """Which images with which labels and groups."""
    digest = hashlib.sha256()
    for table in tables:
        digest.update("\n".join(table.ids).encode())
        digest.update(table.labels.tobytes())
        digest.update(b"" if table.groups is None else table.groups.tobytes())
    return digest.hexdigest()


def _first_checks(
    embedder: Embedder, store: ImageStore, labels: torch.Tensor, seed: int
) -> tuple[Embedder | Accompanied, list[Flag]]:
    """The model to attack (averaged or in company, if it turns out to be random or to need it) and its flags."""
    probe = few_classes(labels, *PROBED, seed)
    images = store.inputs(probe)
    torch.manual_seed(seeds.derive(seed, "checks"))
    with console.bar(5, unit="check", what="first checks") as bar:
        random = checks.randomised(embedder, images)
        bar.update()
        model: Embedder | Accompanied = Expectation(embedder) if random else embedder
        raised = [*random, *checks.non_unit(embedder, images)]
        bar.update()
        raised += checks.inputs(model, images, labels[probe.to(labels.device)])
        bar.update()
        if not random and (dependent := checks.batch_dependent(embedder, images[:APART])):
            model, raised = Accompanied(embedder), raised + dependent
        bar.update()
        if not random and embedder.differentiable:
            raised += checks.gradient_path(embedder, images[:APART])
        bar.update()
    return model, raised
