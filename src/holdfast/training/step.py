"""One step of training: from row numbers to an update."""

from __future__ import annotations

from torch import Tensor

from holdfast.regimes import Batch, StepResult
from holdfast.training.context import TrainingContext
from holdfast.training.session import Session


def load_batch(session: Session, context: TrainingContext, rows: Tensor) -> Batch:
    """Augmented images and class numbers of some rows, on the device."""
    images = session.augment(session.store.get(rows), context.generator("augment"))
    return Batch(images, session.labels[rows.to(session.device)])


def one_step(session: Session, context: TrainingContext, batch: Batch, update: bool) -> StepResult:
    """Learn from a batch, as often as the regime replays it."""
    for context.replay in range(session.regime.replays):
        result = _learn_once(session, context, batch)
        if update:
            _update(session)
    return result


def _learn_once(session: Session, context: TrainingContext, batch: Batch) -> StepResult:
    """Embed, cost and differentiate, each mining group by itself."""
    groups = session.recipe.mining_groups
    results = []
    for context.group, part in enumerate(batch.parts(groups)):
        result = session.regime.step(context, part)
        session.accelerator.backward(result.loss / groups)
        results.append(result)
    return results[0] if groups == 1 else StepResult.mean(results)


def _update(session: Session) -> None:
    """Move the weights along the gathered gradients."""
    recipe, accelerator = session.recipe, session.accelerator
    if recipe.clip is not None:
        parameters = [p for group in session.optimizer.param_groups for p in group["params"]]
        accelerator.clip_grad_norm_(parameters, recipe.clip)
    session.optimizer.step()
    session.optimizer.zero_grad(set_to_none=True)
    if session.average:
        session.average.update(session.model)
