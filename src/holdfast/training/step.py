"""One step of training: from row numbers to an update."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Generator, Tensor, nn

from holdfast import seeds
from holdfast.devices import sent
from holdfast.mining import BatchFacts, training_batch
from holdfast.processes import current_processes
from holdfast.regimes import Batch, StepContext, StepResult
from holdfast.training.session import Session


def image_maker(session: Session, rows: Tensor, generator: Generator) -> Callable[[Tensor], Tensor]:
    """What makes the augmented images of any positions in a batch.

    Which view is seen is drawn for the whole batch, so every process that makes an image makes the same one, and no
    pixel travels between processes.

    Args:
        session: has the images and the augmentation.
        rows: rows of the store, one per position.
        generator: draws the views.
    """
    store, augment = session.store, session.augment
    placed, draws = rows.to(store.device), _draw(session, len(rows), generator)

    def view(positions: Tensor) -> Tensor:
        return store.views(placed[positions], augment, draws[positions.to(draws.device)])

    def make(positions: Tensor) -> Tensor:
        if store.cache != "none":
            return view(positions)
        once, back = torch.unique(positions, return_inverse=True)  # triplets share images, and decoding takes time
        return view(once)[back]

    return make


def load_batch(session: Session, context: StepContext, rows: Tensor) -> Batch:
    """Augmented images of this process's shard of some rows, and class and image numbers of all, on the device."""
    numbers = sent(rows, session.device)
    labels, known = session.labels[numbers], _known(session, rows)
    generator = context.generator("augment")
    if not current_processes().several:
        asked, draws = numbers if session.store.cache == "device" else rows, _draw(session, len(rows), generator)
        return Batch(session.store.views(asked, session.augment, draws), labels, None, numbers, known)
    make = image_maker(session, rows, generator)
    return Batch(make(context.mine(torch.arange(len(rows), device=session.device))), labels, make, numbers, known)


def prefetch(session: Session, context: StepContext, rows: Tensor, step: int) -> None:
    """Start decoding what `load_batch` will show of some rows in a later step."""
    store, augment = session.store, session.augment
    if store.cache != "none":
        return
    draws = _draw(session, len(rows), seeds.generator(session.recipe.seed, step, "augment", device=session.device))
    mine = context.mine(torch.arange(len(rows)))
    store.prefetch(rows[mine], augment, draws[mine])


def _draw(session: Session, count: int, generator: Generator) -> Tensor:
    """What is random about the views of some images: on the CPU where threads decode what it asks for."""
    if session.store.cache != "none":
        return session.augment.draw(count, generator)
    # On a stream of its own it does not wait for what a GPU has to do already.
    aside: Any = nullcontext()
    if session.device.type == "cuda":
        aside = torch.cuda.stream(torch.cuda.Stream(session.device))  # type: ignore[no-untyped-call]
    with aside:
        return session.augment.draw(count, generator).cpu()


def _known(session: Session, rows: Tensor) -> BatchFacts:
    """What the host knows of every mining group of a batch."""
    recipe = session.recipe
    parts = rows.chunk(recipe.mining_groups)
    known = BatchFacts.of_all(BatchFacts.of(session.host_labels[part], part) for part in parts)
    # Batches of pairs differ in how many classes they have.
    return known if recipe.batch.sampler == "classes" else known._replace(classes=None)


def one_step(
    session: Session, context: StepContext, batch: Batch, update: bool, keep_gradients: bool = False
) -> StepResult:
    """Learn from a batch, as often as the regime replays it.

    Args:
        session: what learns.
        context: set to the step.
        batch: what it learns from.
        update: move the weights; otherwise gradients are gathered for a later step.
        keep_gradients: after an update they are zeros in their place, where a captured step adds to them.
    """
    processes = current_processes()
    before = processes.gathered + processes.reduced
    for context.replay in range(session.regime.replays):
        result = _learn_once(session, context, batch)
        if update:
            _update(session, keep_gradients)
    if processes.several:
        result.logs["communicated"] = torch.tensor(float(processes.gathered + processes.reduced - before))
    return result.detached()


def _learn_once(session: Session, context: StepContext, batch: Batch) -> StepResult:
    """Embed, compute the loss and differentiate, each mining group by itself."""
    groups = session.recipe.mining_groups
    results = []
    for context.group, part in enumerate(batch.parts(groups)):
        with training_batch(part.labels, part.known):
            try:
                result = session.regime.step(context, part)
                session.accelerator.backward(result.loss / groups)
            finally:
                context.finish()
        results.append(result)
    return results[0] if groups == 1 else StepResult.mean(results)


def gradients(module: nn.Module) -> list[Tensor]:
    """Of the parameters that have one."""
    return [parameter.grad for parameter in module.parameters() if parameter.grad is not None]


def _update(session: Session, keep_gradients: bool) -> None:
    """Move the weights along the gathered gradients."""
    recipe, accelerator, processes = session.recipe, session.accelerator, current_processes()
    processes.add_all(gradients(session.model))
    # Each has the loss of the whole batch, so the loss's own gradients are alike in all, up to rounding on GPUs.
    processes.add_all(gradients(session.criterion), 1 / processes.world)
    if recipe.clip is not None:
        parameters = [p for group in session.optimizer.param_groups for p in group["params"]]
        accelerator.clip_grad_norm_(parameters, recipe.clip)
    session.optimizer.step()
    session.optimizer.zero_grad(set_to_none=not keep_gradients)
    if session.average:
        session.average.update(session.model)
