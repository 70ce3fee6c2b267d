"""Is training still healthy? A guard against NaN, a watch for collapse, and the last good model kept."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from holdfast.errors import TrainingError
from holdfast.files import new_folder
from holdfast.sphere import total_variation
from holdfast.training.checkpoint import load_checkpoint
from holdfast.training.folder import TrainingFolder
from holdfast.training.logs import read_log
from holdfast.training.session import Session

COLLAPSED = "collapsed"
"""The key of the last line of a log whose run was stopped by a collapse."""

STUCK_AFTER = 10
"""Logged intervals in a row that must look bad before a warning is given."""

TIGHT = 1e-3
"""Mean squared distance to the mean vector, as a fraction of the squared length, below which they are one point."""

NARROW = 5e-3
"""Below this a collapse may have begun: evaluation calls embeddings collapsed from here (a mean distance of 0.1)."""


class Diverged(TrainingError):
    """The loss or a weight is no number any more; the newest checkpoint is kept."""


class Collapsed(TrainingError):
    """All embeddings became the same; the last good model is kept."""


class Finite:
    """Remembers on the device whether every loss so far was finite, without synchronising the GPU at each."""

    def __init__(self, device: torch.device) -> None:
        self._fine = torch.ones((), dtype=torch.bool, device=device)

    def watch(self, loss: Tensor) -> None:
        """Take note of one step's loss."""
        self._fine &= torch.isfinite(loss.detach())

    def check(self, step: int, kept: str, model: nn.Module | None = None) -> None:
        """Stop if a loss so far was not a finite number, or a weight of the model is not.

        Args:
            step: named in the message.
            kept: what is safe on disk, for the message.
            model: looked at before anything of it is evaluated or saved.
        """
        weights = (
            [] if model is None else [torch.isfinite(parameter.detach()).all() for parameter in model.parameters()]
        )
        if not bool(torch.stack([self._fine, *weights]).all()):
            raise Diverged(
                f"the loss became NaN or infinite by step {step}; {kept}. "
                "Lower optimizer.lr, set clip: 1.0, or look for broken images with `holdfast check`"
            )


class CollapseWatch:
    """Notices when embeddings gather in one point, and warns once when the loss sticks at its margin.

    The triplet loss of collapsed embeddings is exactly its margin: every distance is zero. The reverse is not
    true (that of adversarial triplets of hardness zero is too), so only the embeddings tell a collapse.

    Args:
        margin: the loss's margin, if it has one.
        advice: what to do about it.
        state: what `state()` was when training stopped.
    """

    def __init__(self, margin: float | None, advice: str, state: Mapping[str, int] | None = None) -> None:
        before = state or {"tight": 0, "stuck": 0, "warned": False}
        self._margin = margin
        self._advice = advice
        self._tight: int = before["tight"]
        self._stuck: int = before["stuck"]
        self._warned = bool(before["warned"])
        self.spread = 1.0

    def state(self) -> dict[str, int]:
        """What a checkpoint must hold for a resumed run to notice as soon."""
        return {"tight": self._tight, "stuck": self._stuck, "warned": self._warned}

    @property
    def suspicious(self) -> bool:
        """Whether the latest embeddings were so near each other that a collapse may have begun."""
        return self.spread < NARROW

    @property
    def collapsed(self) -> bool:
        """Whether they have been for long enough to be sure."""
        return self._tight >= STUCK_AFTER

    def look(self, loss: float, embeddings: Tensor) -> str | None:
        """A warning to show, or None, given the mean loss of an interval and the latest batch's embeddings."""
        self.spread = spread(embeddings)
        self._tight = self._tight + 1 if self.spread < TIGHT else 0
        at_margin = self._margin is not None and abs(loss - self._margin) < 0.005 * self._margin
        self._stuck = self._stuck + 1 if at_margin else 0
        if self._warned or max(self._tight, self._stuck) < STUCK_AFTER:
            return None
        self._warned = True
        if self.collapsed:
            return f"all embeddings are nearly the same vector: the embedding is collapsing; {self._advice}"
        return f"the loss sticks at its margin (spread {self.spread:.3f}): wait, or {self._advice}"


def spread(embeddings: Tensor) -> float:
    """Mean squared distance to the mean vector over the squared length: 1 all over the sphere, 0 in a point."""
    embeddings = embeddings.detach().float()
    scale = float(embeddings.square().sum(1).mean()) or 1.0
    return float(total_variation(embeddings)) / scale


def keep_last_good(run: TrainingFolder, suspicious: bool) -> None:
    """Set the newest checkpoint aside when a collapse may have begun, until it turns out not to have.

    Called after every check of the embeddings. Training goes on saving meanwhile, so nothing is lost if the suspicion
    was wrong.
    """
    if not suspicious:
        shutil.rmtree(run.good, ignore_errors=True)
    elif run.checkpoints.exists() and not run.good.exists():
        with new_folder(run.good) as copy:
            shutil.copytree(run.checkpoints, copy, dirs_exist_ok=True)


def package_last_good(session: Session, run: TrainingFolder) -> str:
    """Make sure that the packaged model is from before the collapse; says what was kept.

    A model that validation chose is: none is packaged while a collapse may have begun.
    """
    if not run.model.exists():
        found = load_checkpoint(run.good)
        if found is None:
            return "It began before the first checkpoint, so there is no good model to keep"
        session.restore(found)
        run.save_model(session.evaluated_model, run.model, session.recipe)
    return f"The last good model is kept in {run.model}"


def refuse_collapsed(run: TrainingFolder, advice: str) -> None:
    """Refuse to go on with a run that collapsed: a model from after that would take the place of the last good one.

    Args:
        run: its folder; before the first checkpoint there is nothing to lose, and it begins anew.
        advice: what to change.
    """
    try:
        last = read_log(run.metrics)[-1:]
    except OSError:
        return  # training says what is wrong with it
    if not run.checkpoints.exists() or not last or COLLAPSED not in last[0]:
        return
    kept = f"the last good model is kept in {run.model}" if run.model.exists() else "there is no good model of it"
    raise Collapsed(
        f"{run.folder} holds a run that collapsed at step {last[0]['step']}; {kept}. Give another --out, and {advice}, "
        "or go on in spite of it with --set on_collapse=warn"
    )
