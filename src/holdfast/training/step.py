"""One step of training: from row numbers to an update."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from holdfast.data import ImageStore
from holdfast.data.augment import Augment
from holdfast.data.ragged import RaggedImages
from holdfast.processes import current_processes
from holdfast.regimes import Batch, StepContext, StepResult
from holdfast.training.session import Session


class BatchImages:
    """Makes the augmented image of any position in a batch.

    Which view is seen was drawn for the whole batch, so every process that makes an image makes the same one, and no
    pixel travels between processes.

    Args:
        rows: rows of the store, one per position.
        store: the images.
        augment: makes the views.
        generator: draws them.
    """

    def __init__(self, rows: Tensor, store: ImageStore, augment: Augment, generator: Generator) -> None:
        self._rows, self._store, self._augment = rows.to(store.device), store, augment
        self._draws = augment.draw(len(rows), generator)

    def __call__(self, positions: Tensor) -> Tensor:
        """The images at some positions."""
        if self._store.cache != "none":
            return self._view(self._store.get(self._rows[positions]), positions)
        once, back = torch.unique(positions, return_inverse=True)  # triplets share images, and decoding takes time
        return self._view(self._store.get(self._rows[once]), once)[back]

    def _view(self, images: RaggedImages, positions: Tensor) -> Tensor:
        return self._augment.view(images, self._draws[positions.to(self._draws.device)])


def load_batch(session: Session, context: StepContext, rows: Tensor) -> Batch:
    """Augmented images of this process's shard of some rows, and class and image numbers of all, on the device."""
    numbers = rows.to(session.device)
    labels = session.labels[numbers]
    if not current_processes().several:
        images = session.augment(session.store.get(rows), context.generator("augment"))
        return Batch(images, labels, numbers=numbers)
    make = BatchImages(rows, session.store, session.augment, context.generator("augment"))
    return Batch(make(context.mine(torch.arange(len(rows), device=session.device))), labels, make, numbers)


def one_step(session: Session, context: StepContext, batch: Batch, update: bool) -> StepResult:
    """Learn from a batch, as often as the regime replays it."""
    processes = current_processes()
    before = processes.gathered + processes.reduced
    for context.replay in range(session.regime.replays):
        result = _learn_once(session, context, batch)
        if update:
            _update(session)
    if processes.several:
        result.logs["communicated"] = torch.tensor(float(processes.gathered + processes.reduced - before))
    return result


def _learn_once(session: Session, context: StepContext, batch: Batch) -> StepResult:
    """Embed, compute the loss and differentiate, each mining group by itself."""
    groups = session.recipe.mining_groups
    results = []
    for context.group, part in enumerate(batch.parts(groups)):
        result = session.regime.step(context, part)
        session.accelerator.backward(result.loss / groups)
        results.append(result)
    return results[0] if groups == 1 else StepResult.mean(results)


def gradients(module: nn.Module) -> list[Tensor]:
    """Of the parameters that have one."""
    return [parameter.grad for parameter in module.parameters() if parameter.grad is not None]


def _update(session: Session) -> None:
    """Move the weights along the gathered gradients."""
    recipe, accelerator, processes = session.recipe, session.accelerator, current_processes()
    processes.add_all(gradients(session.model))
    # Each has the loss of the whole batch, so the loss's own gradients are alike in all, up to rounding on GPUs.
    processes.add_all(gradients(session.criterion), 1 / processes.world)
    if recipe.clip is not None:
        parameters = [p for group in session.optimizer.param_groups for p in group["params"]]
        accelerator.clip_grad_norm_(parameters, recipe.clip)
    session.optimizer.step()
    session.optimizer.zero_grad(set_to_none=True)
    if session.average:
        session.average.update(session.model)
