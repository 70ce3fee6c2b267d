"""Keeping the last good model of a run whose embeddings gather in one point."""

from __future__ import annotations

import shutil

from holdfast.errors import TrainingError
from holdfast.files import new_folder
from holdfast.training.checkpoint import load_checkpoint
from holdfast.training.folder import RunFolder, model_card
from holdfast.training.session import Session


class Collapsed(TrainingError):
    """All embeddings became the same; the last good model is kept."""


class LastGood:
    """Sets the newest checkpoint aside when a collapse may have begun, until it turns out not to have.

    Training goes on saving meanwhile, so nothing is lost if the suspicion was wrong.

    Args:
        run: the run's folder.
    """

    def __init__(self, run: RunFolder) -> None:
        self._run = run

    def mind(self, suspicious: bool) -> None:
        """Called after every look at the embeddings."""
        aside = self._run.good
        if not suspicious:
            self.forget()
        elif self._run.checkpoints.exists() and not aside.exists():
            with new_folder(aside) as copy:
                shutil.copytree(self._run.checkpoints, copy, dirs_exist_ok=True)

    def forget(self) -> None:
        """There is nothing to fear any more."""
        shutil.rmtree(self._run.good, ignore_errors=True)

    def package(self, session: Session) -> str:
        """Make sure that the packaged model is from before the collapse; says what was kept.

        A model that validation chose is: none is packaged while a collapse may have begun.
        """
        run = self._run
        if not run.model.exists():
            found = load_checkpoint(run.good)
            if found is None:
                return "It began before the first checkpoint, so there is no good model to keep"
            session.restore(found)
            run.save_model(session.evaluated_model, run.model, model_card(session.recipe, {}, ""))
        return f"The last good model is kept in {run.model}"
