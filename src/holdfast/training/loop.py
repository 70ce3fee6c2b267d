"""The training loop: read it top to bottom."""

from __future__ import annotations

import dataclasses
import math
import signal
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from statistics import fmean
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from holdfast import console, metrics, seeds
from holdfast.data import ImageStore
from holdfast.devices import choose_device, seeded_devices, tiny_as_zero
from holdfast.errors import HoldfastError, RecipeError, TrainingError
from holdfast.evaluation import embed
from holdfast.models.compile_choice import CompileChoice, CompileMeter, CompileTimes, choose_compiling, shared_compiling
from holdfast.processes import current_processes, joined, starts_first
from holdfast.regimes import StepContext, StepResult
from holdfast.run_files import FITTED, KEPT, ON_TEST, START, UNDER_ATTACK
from holdfast.training import health
from holdfast.training.captured import CapturedStep
from holdfast.training.checkpoint import Pace, broadcast_checkpoint, load_checkpoint, remove_useless, save_checkpoint
from holdfast.training.choosing import choose_recipe, shrunk_line
from holdfast.training.evaluations import finish, measure_on_test, measure_start, open_test_stores
from holdfast.training.fitting import fit_head
from holdfast.training.folder import TrainingFolder, default_folder
from holdfast.training.logs import Interval, MetricsLog
from holdfast.training.optimizers import set_rates
from holdfast.training.recipe import Recipe, load_recipe
from holdfast.training.session import Session, build_session
from holdfast.training.step import load_batch, prefetch

AHEAD = 2
"""Batches that are decoded while one is learnt, where images are decoded at each use."""


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
    recipe: str | Path | dict[str, Any] | Recipe | None = None,
    data: str | dict[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    settings: Sequence[str] = (),
    seed: int | None = None,
    device: str | torch.device | None = None,
    skip_bad: bool = False,
) -> Run:
    """Train an embedding, or go on where an interrupted run of the same recipe stopped.

    Args:
        recipe: a shipped name, a YAML file, plain data or a recipe; left out, what suits the data, the device and the
            weights at hand.
        data: replaces the recipe's data: `glyphs`, `folder:DIR`, or a block.
        out: the run folder; named after recipe, data and seed when left out.
        settings: `key.path=value` overrides.
        seed: replaces the recipe's seed.
        device: `cpu`, `cuda`, `cuda:1`, `mps`, or None for the best there is.
        skip_bad: leave unreadable images out, and report them, instead of stopping.
    """
    place = choose_device(device)
    if recipe is None:
        choice = choose_recipe(data, settings, place)
        recipe, settings = choice.recipe, (*choice.settings, *settings)
        for line in choice.lines:
            console.say(line)
    name = str(recipe) if isinstance(recipe, (str, Path)) else "run"
    checked = load_recipe(recipe, data, settings, seed)
    run = TrainingFolder(Path(out) if out else default_folder(name, checked))
    first = checked.first()
    if first is not None and run.open(checked) is None:
        if starts_first():
            console.say(f"first the run that it starts from, {run.first}")
        with shared_compiling(2):  # this run finds its graphs
            train(first, out=run.first, device=device, skip_bad=skip_bad)
    with joined(place) as processes, ExitStack() as stack:
        done = processes.tell(lambda: run.open(checked))
        if done is not None:
            console.say(f"{run.folder} is already finished")
            return Run(run.folder, checked, done)
        processes.tell(lambda: health.refuse_collapsed(run, checked.regime.build().advice))
        processes.tell(lambda: stack.enter_context(run.held(checked)))
        stack.enter_context(tiny_as_zero(place))
        stack.enter_context(torch.random.fork_rng(seeded_devices(place)))  # the caller's random state is its own
        session = build_session(checked, place, skip_bad, run.folder)
        if warning := shrunk_line(checked, session.table):
            console.say(warning)
        with seeds.deterministic(session.device):
            Loop(session, run).learn()
            evaluation = finish(session, run)
    return Run(run.folder, checked, evaluation)


class Loop:
    """All steps of a run, from its newest checkpoint to the end of the last epoch."""

    def __init__(self, session: Session, run: TrainingFolder) -> None:
        self.session, self.run, self.processes = session, run, current_processes()
        self.recipe, self.epoch_steps = session.recipe, len(session.batches)
        self.total = self.recipe.epochs * self.epoch_steps
        if self.recipe.accumulate > max(1, self.total):
            raise RecipeError(f"accumulate ({self.recipe.accumulate}) is more than all {self.total} steps; lower it")
        self.step = 0
        self.saved: int | None = None
        self.pace = Pace()
        self.seen = self.score = ""
        self.meter: CompileMeter | None = None

    def learn(self) -> None:
        """Train until the last epoch is done."""
        found = broadcast_checkpoint(lambda: load_checkpoint(self.run.checkpoints))
        if found:
            try:
                self.session.restore(found)
            except (RuntimeError, ValueError, KeyError) as error:
                raise TrainingError(
                    f"the checkpoint of step {found.step} in {self.run.folder} does not fit the data as it is now "
                    f"({' '.join(str(error).split())[:120]}); put back the images it began with, or give another --out"
                ) from error
            self.step = self.saved = found.step
            console.say(f"resuming {self.run.folder} at step {found.step} of {self.total}")
        try:
            self._learn(found.state if found else {})
        except OSError as error:
            raise TrainingError(
                f"{error.filename or self.run.folder}: {error.strerror or error}; {self._kept()}. "
                "Mend that (free some space?) and run the same command again"
            ) from error

    def _learn(self, state: dict[str, Any]) -> None:
        session, recipe = self.session, self.recipe
        self.log = MetricsLog(self.run.metrics, self.saved) if self.processes.main else None
        self.finite = health.Finite(session.device)
        margin = float(recipe.loss.plain["margin"]) if recipe.loss.name == "triplet" else None
        self.watch = health.CollapseWatch(margin, session.regime.advice, state.get("watch"))
        self.validation = session.open_store("val") if session.table.has("val") else None
        if recipe.robust_validation and self.validation is None:
            raise TrainingError("robust_validation: there are no validation classes to choose by; set data.validation")
        self.test_stores = open_test_stores(session) if recipe.test_curve else []
        compiled = self._choose_compiling()
        context = StepContext(session.model, session.criterion, session.accelerator, recipe.seed, compiled, self.total)
        learn = CapturedStep(session, context)
        schedule = recipe.schedule.build()
        self.interval = Interval(session.device, state.get("interval"))
        if self.log and self.saved == self.total:  # a kill may have come while older checkpoints were removed
            remove_useless(self.run.checkpoints, self.step)
        if recipe.trackers:
            session.accelerator.init_trackers("holdfast", config={"recipe": recipe.yaml()})
        if self.step == 0:
            with self.interval.paused():
                self._write({"epoch": 0, START: measure_start(session, self.validation, self.test_stores)})
                if recipe.model.head and recipe.start is None:  # otherwise the run that came first has fitted it
                    self._write({"epoch": 0, FITTED: fit_head(session)})
        with stop_signals() as stop, console.bar(self.total, self.step, what="training") as self.bar:
            if self.step == 0:
                self._evaluate()
            save_due = False
            for rows, coming in look_ahead(_rows_from(session, self.step), AHEAD):
                window = self._window()
                session.accelerator.gradient_accumulation_steps = len(window)
                self.rate = set_rates(session.optimizer, fmean(schedule.factor(s, self.total) for s in window))
                context.start(self.step)
                batch = load_batch(session, context, rows)
                for distance, following in coming:
                    prefetch(session, context, following, self.step + distance)
                self.step += 1
                last, update = self.step == self.total, self.step == window.stop
                result = learn(batch, update)
                self.finite.watch(result.loss)
                self.interval.add(result, context.passes / recipe.mining_groups, context.passed)
                self.bar.update()
                if last or self.step % recipe.log_every == 0:
                    self._report(self.interval.close(len(rows)), result)
                epoch, within = divmod(self.step, self.epoch_steps)
                if within == 0 and (last or epoch % recipe.evaluate_every == 0):
                    self._evaluate()
                if recipe.checkpoint_every:
                    due = self.step % recipe.checkpoint_every == 0
                else:
                    due = within == 0 and self.processes.tell(self.pace.allows)
                stopping = self.processes.any_of(bool(stop))
                save_due = save_due or due or last or stopping
                if save_due and update:  # between updates, gathered gradients would be lost
                    self._save()
                    save_due = False
                    if stopping and not last:
                        raise Interrupted(f"stopped at step {self.step} of {self.total}; run the same command to go on")
        if recipe.trackers:
            session.accelerator.end_training()

    def _window(self) -> range:
        """The steps whose gradients are one update, among them the present one; the last of training may be fewer."""
        first = self.step - self.step % self.recipe.accumulate
        return range(first, min(first + self.recipe.accumulate, self.total))

    def _choose_compiling(self) -> bool:
        """Whether to compile, said and written down where it was a question; one process decides for all."""
        model, recipe, half = self.session.model, self.recipe, self.session.precision == "bfloat16"
        batch = recipe.batch.classes * recipe.batch.per_class
        images = (self.total - self.step) * self.session.regime.passes * batch

        def choose() -> dict[str, Any]:
            return dataclasses.asdict(choose_compiling(recipe.compile, model, images, batch, half))

        choice = CompileChoice(**self.processes.tell(choose))
        if choice.saves:
            console.say(str(choice))
            self._write({"compile": dataclasses.asdict(choice)})
        if choice.compiled and self.session.device.type == "cuda":
            self.meter = CompileMeter(CompileTimes(model, half))
        return choice.compiled

    def _report(self, line: dict[str, float], result: StepResult) -> None:
        """One line in the log, the bar's caption, and a word if the embedding is collapsing, or a stop."""
        self.finite.check(self.step, self._kept())
        if self.meter:
            self.meter.add(*self.interval.measured)
        warning = self.watch.look(line.get("triplet", line.get("regime", line["loss"])), result.encoded.z)
        line["spread"] = self.watch.spread
        epoch = self.step / self.epoch_steps
        self._write({"epoch": round(epoch, 4), "lr": self.rate, **line})
        self.session.accelerator.log(line, step=self.step)
        self.bar.set_description(f"epoch {math.ceil(epoch)}/{self.recipe.epochs}", refresh=False)
        caption = f"loss {line['loss']:.3f}  {self.session.regime.caption(line)}".rstrip()
        self.seen = f"{caption}  spread {line['spread']:.2f}"
        self._show()
        if warning:
            self._write({"warning": warning})
            console.say(f"warning: {warning}")
        if self.processes.main:
            health.keep_last_good(self.run, self.watch.suspicious)
        if self.watch.collapsed and self.recipe.on_collapse == "stop":
            kept = self.processes.tell(lambda: health.package_last_good(self.session, self.run))
            self._write({health.COLLAPSED: True})
            raise health.Collapsed(
                f"all embeddings are nearly the same vector, {health.STUCK_AFTER} checks in a row: the model has "
                f"collapsed. {kept}; for the next run, {self.session.regime.advice}"
            )

    def _show(self) -> None:
        """The live view: loss and health, and R@1 on the validation or test classes."""
        self.bar.set_postfix_str(f"{self.seen}  {self.score}".strip(), refresh=False)

    def _evaluate(self) -> None:
        """Look at the validation classes, and at the test classes where a curve of those is asked for."""
        if self.validation is None and not self.test_stores:
            return
        self.finite.check(self.step, self._kept(), self.session.model)
        with self.interval.paused(), console.shown(False):
            if self.validation is not None:
                self._validate(self.validation)
            if self.test_stores:
                self._note(ON_TEST, measure_on_test(self.session, self.test_stores), "test R@1")

    def _validate(self, validation: ImageStore) -> None:
        """Retrieval on the validation classes; the model is packaged if none was better, so of equals the latest."""
        session = self.session
        vectors = embed(session.evaluated_model, validation, precision=session.precision)
        labels = torch.tensor(validation.table.labels_for(self.recipe.data.plain["labels"]))
        values = metrics.retrieval(vectors, labels)
        score, noted = values["R@1"], dict(values)
        if self.recipe.robust_validation and self.step and score is not None:
            model, seed = session.evaluated_model, self.recipe.seed
            score = self.recipe.robust_validation.measure(model, validation, vectors, labels, seed)
            noted[UNDER_ATTACK] = score
        better = score is not None and (session.best is None or score >= session.best)
        healthy = health.spread(vectors) >= health.NARROW  # a collapse must not replace the last good model
        kept = bool(self.step and healthy and better)
        self._note("validation", noted, "R@1", **({KEPT: True} if kept else {}))
        if kept:
            session.best = score
            if self.processes.main:
                self.run.save_model(session.evaluated_model, self.run.model, self.recipe, values)

    def _note(self, key: str, values: Mapping[str, metrics.Value], shown: str, **more: bool) -> None:
        """A line of the log about an evaluation, for the trackers too; its R@1 is shown live under a name."""
        self._write({"epoch": self.step // self.epoch_steps, key: dict(values), **more})
        known = {f"{key}/{name}": value for name, value in values.items() if value is not None}
        self.session.accelerator.log(known, step=self.step)
        if values["R@1"] is not None:
            self.score = f"{shown} {values['R@1']:.1f}"
            self._show()

    def _save(self) -> None:
        self.finite.check(self.step, self._kept(), self.session.model)
        if self.log:
            self.log.sync()
            state = {"interval": self.interval.state(), "watch": self.watch.state()}
            with self.pace.timed():
                save_checkpoint(self.run.checkpoints, self.session.checkpoint(self.step, **state))
        self.saved = self.step

    def _write(self, entry: dict[str, Any]) -> None:
        """A line of the log about this step."""
        if self.log:
            self.log.write({"step": self.step, **entry})

    def _kept(self) -> str:
        return f"the checkpoint of step {self.saved} is kept" if self.saved else "no checkpoint was written yet"


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A clean stop: while active, the first SIGINT or SIGTERM only joins the list; a second one interrupts as usual."""
    caught: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # a background job that ignores it keeps doing so
                before[number] = signal.signal(number, note)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def look_ahead(batches: Iterator[Tensor], count: int) -> Iterator[tuple[Tensor, list[tuple[int, Tensor]]]]:
    """Each batch, with those that come into sight for the first time and how far away they are, at most `count`."""
    seen: deque[Tensor] = deque(islice(batches, 1))
    while seen:
        rows, known = seen.popleft(), len(seen)
        seen.extend(islice(batches, count - known))
        yield rows, [(number + 1, batch) for number, batch in enumerate(seen) if number >= known]


def _rows_from(session: Session, step: int) -> Iterator[Tensor]:
    """Batches of row numbers from a step to the end of training."""
    length = len(session.batches)
    for epoch in range(step // length, session.recipe.epochs):
        session.batches.set_epoch(epoch)
        yield from islice(session.batches, max(0, step - epoch * length), None)
