"""The training loop: read it top to bottom."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from holdfast import metrics, seeds
from holdfast.console import Console
from holdfast.data import ImageStore
from holdfast.devices import choose_device, seeded_devices
from holdfast.errors import HoldfastError, TrainingError
from holdfast.evaluation import document, embed, evaluate
from holdfast.models import load_model
from holdfast.models.compiled import worth_compiling
from holdfast.models.run_card import write_card
from holdfast.regimes import StepResult
from holdfast.training.checkpoint import load_checkpoint, save_checkpoint
from holdfast.training.collapse import Collapsed, LastGood
from holdfast.training.context import TrainingContext
from holdfast.training.folder import RunFolder, default_folder, model_card, split_counts
from holdfast.training.health import NARROW, STUCK_AFTER, CollapseWatch, Finite, spread
from holdfast.training.logs import Interval, MetricsLog
from holdfast.training.recipe import Recipe, load_recipe
from holdfast.training.session import Session, build_session
from holdfast.training.step import load_batch, one_step
from holdfast.training.stop import StopRequest

T = TypeVar("T")


class Interrupted(HoldfastError):
    """The user asked to stop; everything is saved."""

    exit_code = 130


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        folder: where it is.
        recipe: what was run, defaults written out.
        evaluation: the content of evaluation.json.
    """

    folder: Path
    recipe: Recipe
    evaluation: dict[str, Any]


def train(
    recipe: str | Path | dict[str, Any] | Recipe,
    data: str | dict[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    settings: Sequence[str] = (),
    seed: int | None = None,
    device: str | torch.device | None = None,
    skip_bad: bool = False,
    console: Console | None = None,
) -> Run:
    """Train an embedding, or go on where an interrupted run of the same recipe stopped.

    Args:
        recipe: a shipped name, a YAML file, plain data or a recipe.
        data: replaces the recipe's data: `glyphs`, `folder:DIR`, or a block.
        out: the run folder; named after recipe, data and seed when left out.
        settings: `key.path=value` overrides.
        seed: replaces the recipe's seed.
        device: `cpu`, `cuda`, `cuda:1`, `mps`, or None for the best there is.
        skip_bad: leave unreadable images out, and report them, instead of stopping.
        console: shows progress if given.
    """
    console = console or Console(quiet=True)
    name = str(recipe) if isinstance(recipe, (str, Path)) else "run"
    checked = load_recipe(recipe, data, settings, seed)
    place = choose_device(device)
    run = RunFolder(Path(out) if out else default_folder(name, checked))
    done = run.open(checked)
    if done is not None:
        console.say(f"{run.folder} is already finished")
        return Run(run.folder, checked, done)
    # the caller's random state is its own
    with run.held(checked), torch.random.fork_rng(seeded_devices(place)):
        session = build_session(checked, place, skip_bad, console, run.folder)
        with seeds.deterministic(session.device):
            Loop(session, run, console).learn()
            evaluation = finish(session, run, console)
    return Run(run.folder, checked, evaluation)


class Loop:
    """All steps of a run, from its newest checkpoint to the end of the last epoch.

    Args:
        session: the parts of the run.
        run: where it writes.
        console: shows progress.
    """

    def __init__(self, session: Session, run: RunFolder, console: Console) -> None:
        self.session, self.run, self.console = session, run, console
        self.recipe, self.epoch_steps = session.recipe, len(session.batches)
        self.total = self.recipe.epochs * self.epoch_steps
        self.step = 0
        self.saved: int | None = None
        self.good = LastGood(run)
        self.seen = self.score = ""

    def learn(self) -> None:
        """Train until the last epoch is done."""
        found = load_checkpoint(self.run.checkpoints, self.console.say)
        if found:
            try:
                self.session.restore(found)
            except (RuntimeError, ValueError, KeyError) as error:
                raise TrainingError(
                    f"the checkpoint of step {found.step} in {self.run.folder} does not fit the data as it is now "
                    f"({' '.join(str(error).split())[:120]}); put back the images it began with, or give another --out"
                ) from error
            self.step = self.saved = found.step
            self.console.say(f"resuming {self.run.folder} at step {found.step} of {self.total}")
        try:
            self._learn(found.state.get("interval") if found else None)
        except OSError as error:
            raise TrainingError(
                f"{error.filename or self.run.folder}: {error.strerror or error}; {self._kept()}. "
                "Mend that (free some space?) and run the same command again"
            ) from error

    def _learn(self, interval: dict[str, Any] | None) -> None:
        session, recipe = self.session, self.recipe
        self.log = MetricsLog(self.run.metrics, self.saved)
        self.finite = Finite(session.device)
        self.watch = CollapseWatch(_triplet_margin(recipe), session.regime.advice)
        self.validation = _validation_store(session)
        batches = (self.total - self.step) * session.regime.passes
        images = batches * recipe.batch.classes * recipe.batch.per_class
        context = TrainingContext(
            session.model,
            session.criterion,
            session.accelerator,
            recipe.seed,
            compiled=worth_compiling(recipe.compile, session.device, images),
        )
        schedule = recipe.schedule.build()
        self.interval = Interval(session.device, interval)
        if recipe.trackers:
            session.accelerator.init_trackers("holdfast", config={"recipe": recipe.yaml()})
        with StopRequest() as stop, self.console.bar(self.total, self.step, what="training") as self.bar:
            if self.step == 0:
                self._validate()
            save_due = False
            for rows, following in with_next(_rows_from(session, self.step)):
                for group in session.optimizer.param_groups:
                    group["lr"] = group["initial_lr"] * schedule.factor(self.step, self.total)
                context.start(self.step)
                batch = load_batch(session, context, rows)
                if following is not None:
                    session.store.prefetch(following)
                self.step += 1
                last = self.step == self.total
                update = last or self.step % recipe.accumulate == 0
                result = one_step(session, context, batch, update)
                self.finite.watch(result.loss)
                self.interval.add(result, context.passes)
                self.bar.update()
                if last or self.step % recipe.log_every == 0:
                    self._report(self.interval.close(len(rows)), result)
                epoch, within = divmod(self.step, self.epoch_steps)
                if within == 0 and (last or epoch % recipe.evaluate_every == 0):
                    self._validate()
                due = self.step % recipe.checkpoint_every == 0 if recipe.checkpoint_every else within == 0
                save_due = save_due or due or last or stop.requested
                if save_due and update:  # between updates, gathered gradients would be lost
                    self._save()
                    save_due = False
                    if stop.requested and not last:
                        raise Interrupted(f"stopped at step {self.step} of {self.total}; run the same command to go on")
        if recipe.trackers:
            session.accelerator.end_training()

    def _report(self, line: dict[str, float], result: StepResult) -> None:
        """One line in the log, the bar's caption, and a word if the embedding is collapsing, or a stop."""
        self.finite.check_losses(self.step, self._kept())
        warning = self.watch.look(line.get("triplet", line["loss"]), result.encoded.z)
        line["spread"] = self.watch.spread
        epoch = self.step / self.epoch_steps
        lr = self.session.optimizer.param_groups[0]["lr"]
        self.log.write({"step": self.step, "epoch": round(epoch, 4), "lr": lr, **line})
        self.session.accelerator.log(line, step=self.step)
        self.bar.set_description(f"epoch {math.ceil(epoch)}/{self.recipe.epochs}", refresh=False)
        caption = f"loss {line['loss']:.3f}  {self.session.regime.caption(line)}".rstrip()
        self.seen = f"{caption}  spread {line['spread']:.2f}"
        self._show()
        if warning:
            self.log.write({"step": self.step, "warning": warning})
            self.console.say(f"warning: {warning}")
        self.good.mind(self.watch.suspicious)
        if self.watch.collapsed and self.recipe.on_collapse == "stop":
            raise Collapsed(
                f"all embeddings are nearly the same vector, {STUCK_AFTER} looks in a row: the model has collapsed. "
                f"{self.good.package(self.session)}; for the next run, {self.session.regime.advice}"
            )

    def _show(self) -> None:
        """The live view: loss and health, and R@1 on the validation classes."""
        self.bar.set_postfix_str(f"{self.seen}  {self.score}".strip(), refresh=False)

    def _validate(self) -> None:
        """Retrieval on the validation classes; a new best is packaged."""
        session = self.session
        if self.validation is None:
            return
        self.finite.check_weights(session.model, self.step, self._kept())
        vectors = embed(session.evaluated_model, self.validation, precision=session.precision)
        labels = torch.tensor(self.validation.table.labels_for(self.recipe.data.plain["labels"]))
        values = metrics.retrieval(vectors, labels, ks=(1, 2, 4, 8))
        self.log.write({"step": self.step, "epoch": self.step // self.epoch_steps, "validation": dict(values)})
        session.accelerator.log({f"validation/{k}": v for k, v in values.items() if v is not None}, step=self.step)
        score = values["R@1"]
        if score is None:
            return
        self.score = f"R@1 {score:.1f}"
        self._show()
        healthy = spread(vectors) >= NARROW  # a collapse must not replace the last good model
        if self.step and healthy and (session.best is None or score > session.best):
            session.best = score
            self.run.save_model(session.evaluated_model, self.run.model, model_card(self.recipe, values, "validation"))

    def _save(self) -> None:
        self.finite.check_losses(self.step, self._kept())
        self.finite.check_weights(self.session.model, self.step, self._kept())
        self.log.sync()
        found = self.session.checkpoint(self.step)
        state = {**found.state, "interval": self.interval.state()}
        save_checkpoint(self.run.checkpoints, dataclasses.replace(found, state=state))
        self.saved = self.step

    def _kept(self) -> str:
        return f"the checkpoint of step {self.saved} is kept" if self.saved else "no checkpoint was written yet"


def finish(session: Session, run: RunFolder, console: Console) -> dict[str, Any]:
    """Package the last model, evaluate the best on the test classes and write evaluation.json."""
    recipe = session.recipe
    LastGood(run).forget()
    run.save_model(session.evaluated_model, run.last, model_card(recipe, {}, ""))
    if session.best is None:  # nothing to choose by, so the last is the model
        run.save_model(session.evaluated_model, run.model, model_card(recipe, {}, ""))
    result = evaluate(
        load_model(str(run.folder), trust_code=True),  # the run's own recipe named the code
        session.table,
        device=session.device,
        skip_bad=session.skip_bad,
        seed=recipe.seed,
        console=console,
    )
    content = document(result, model=run.folder.name, data=recipe.data.plain, seed=recipe.seed)
    content["recipe"] = recipe.digest()
    content["splits"] = split_counts(session.table)
    run.save_evaluation(content)
    write_card(run.folder)
    return content


def _rows_from(session: Session, step: int) -> Iterator[Tensor]:
    """Batches of row numbers from a step to the end of training."""
    length = len(session.batches)
    for epoch in range(step // length, session.recipe.epochs):
        session.batches.set_epoch(epoch)
        for position, rows in enumerate(session.batches):
            if epoch * length + position >= step:
                yield rows


def with_next(items: Iterable[T]) -> Iterator[tuple[T, T | None]]:
    """Each item with the one that follows it, so that the next batch can be decoded while this one is learnt."""
    waiting: T | None = None
    for item in items:
        if waiting is not None:
            yield waiting, item
        waiting = item
    if waiting is not None:
        yield waiting, None


def _validation_store(session: Session) -> ImageStore | None:
    if not session.table.has("val"):
        return None
    table = session.table.split("val")
    return ImageStore(table, session.model.canvas, session.device, session.recipe.cache, session.skip_bad)


def _triplet_margin(recipe: Recipe) -> float | None:
    return float(recipe.loss.plain["margin"]) if recipe.loss.name == "triplet" else None
