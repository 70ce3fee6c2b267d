"""One step of training: from row numbers to an update."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.regimes import Batch, StepResult
from holdfast.training.context import TrainingContext
from holdfast.training.images import BatchImages
from holdfast.training.session import Session


def load_batch(session: Session, context: TrainingContext, rows: Tensor) -> Batch:
    """Augmented images of this process's share of some rows, and class and image numbers of all, on the device."""
    numbers = rows.to(session.device)
    labels = session.labels[numbers]
    if not session.processes.several:
        images = session.augment(session.store.get(rows), context.generator("augment"))
        return Batch(images, labels, numbers=numbers)
    make = BatchImages(rows, session.store, session.augment, context.generator("augment"))
    return Batch(make(context.mine(torch.arange(len(rows), device=session.device))), labels, make, numbers)


def one_step(session: Session, context: TrainingContext, batch: Batch, update: bool) -> StepResult:
    """Learn from a batch, as often as the regime replays it."""
    processes = session.processes
    before = processes.gathered + processes.reduced
    for context.replay in range(session.regime.replays):
        result = _learn_once(session, context, batch)
        if update:
            _update(session)
    if processes.several:
        result.logs["communicated"] = torch.tensor(float(processes.gathered + processes.reduced - before))
    return result


def _learn_once(session: Session, context: TrainingContext, batch: Batch) -> StepResult:
    """Embed, cost and differentiate, each mining group by itself."""
    groups = session.recipe.mining_groups
    results = []
    for context.group, part in enumerate(batch.parts(groups, session.processes)):
        result = session.regime.step(context, part)
        session.accelerator.backward(result.loss / groups)
        results.append(result)
    return results[0] if groups == 1 else StepResult.mean(results)


def gradients(module: nn.Module) -> list[Tensor]:
    """Of the parameters that have one."""
    return [parameter.grad for parameter in module.parameters() if parameter.grad is not None]


def _update(session: Session) -> None:
    """Move the weights along the gathered gradients."""
    recipe, accelerator, processes = session.recipe, session.accelerator, session.processes
    processes.add_all(gradients(session.model))
    # Every process costs the whole batch, so the loss's own gradients are alike in all, up to rounding on GPUs.
    processes.add_all(gradients(session.criterion), 1 / processes.world)
    if recipe.clip is not None:
        parameters = [p for group in session.optimizer.param_groups for p in group["params"]]
        accelerator.clip_grad_norm_(parameters, recipe.clip)
    session.optimizer.step()
    session.optimizer.zero_grad(set_to_none=True)
    if session.average:
        session.average.update(session.model)
