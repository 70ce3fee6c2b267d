"""A step of training as one CUDA graph: captured when it has warmed up, replayed from then on.

With small batches a GPU waits for the host, which queues thousands of kernels one by one. A graph is queued at once:
attack, mining, loss, gradients, update and average of weights. What differs between two steps is copied to where the
graph reads it: images, labels and image numbers, the seeds of all generators, learning rates, the share of training
done. So a replayed step is the step, draw by draw, and a run that goes on from a checkpoint is the same run.
"""

from __future__ import annotations

import dataclasses
import gc
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Generator, Tensor, nn

from holdfast import console
from holdfast.configurable import Configurable
from holdfast.errors import reason
from holdfast.losses.memory import Memory
from holdfast.processes import current_processes
from holdfast.regimes import Batch, StepContext, StepResult
from holdfast.regimes.context import Purpose
from holdfast.training.session import Session
from holdfast.training.step import one_step

WARM = 3
"""Steps of a kind that are queued before it is captured: libraries choose their algorithms, optimisers make their
memory."""

STOPPING = 100
"""The same once an attack of that kind has stopped before its last step: a captured one never does, which costs passes
and changes nothing."""

SPARED = 0.1
"""Share of the passes of those steps that may have been spared in that way. Chosen, not measured: captured, as many
steps should still cost less than queued."""

MOST = 8
"""Kinds of steps that are captured, each in memory of its own."""

TRUSTED = {"holdfast", "torch", "torchvision", "timm", "transformers", "pytorch_metric_learning"}
"""Packages whose classes are known to do the same in every step; others say so with `capturable = True`."""

Kind: TypeAlias = tuple[Any, ...]
"""What must be equal in two steps for one graph to serve both."""

Work: TypeAlias = Callable[[], StepResult]


class Recorder:
    """Runs a step, and runs it again; a device without graphs just calls it."""

    def warm(self, work: Work, watched: bool) -> tuple[StepResult, str | None]:
        """Run a step, and say, where it is watched, what in it waits for the device."""
        return work(), None

    def record(self, work: Work, generators: Sequence[Generator]) -> Work:
        """What runs the step again; recording it runs nothing.

        Args:
            work: the step, which reads from where it read when it was recorded.
            generators: what it draws from; seeded anew before each run.
        """
        return work


class CudaRecorder(Recorder):
    """Captures a step as a CUDA graph.

    Args:
        device: the GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool: Any = None

    def warm(self, work: Work, watched: bool) -> tuple[StepResult, str | None]:
        """On the stream that is going to be captured, which gradients of weights remember."""
        present = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(present)
        with torch.cuda.stream(self._stream):
            result, waits = _watch(work) if watched else (work(), None)
        present.wait_stream(self._stream)
        return result, waits

    def record(self, work: Work, generators: Sequence[Generator]) -> Work:
        """The graph; all graphs share memory, as only one runs at a time and its results are read before the next."""
        gc.collect()  # graphs of earlier steps, which remember their streams
        graph, present = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._device)
        for generator in generators:
            graph.register_generator_state(generator)
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                result = work()
        except Exception as error:
            # Torch leaves its stream as the present one, and the generator of the device in the middle of a capture.
            torch.cuda.set_stream(present)
            torch.cuda.synchronize(self._device)
            index = torch.cuda.current_device() if self._device.index is None else self._device.index
            fresh = torch.Generator(self._device).graphsafe_get_state()
            torch.cuda.default_generators[index].graphsafe_set_state(fresh)
            raise (error.__context__ or error) from None
        self._pool = graph.pool()

        def replay() -> StepResult:
            graph.replay()
            return result

        return replay


@dataclasses.dataclass(frozen=True)
class _Captured:
    """A recorded step: where it reads its batch, what it draws from and for what, how to run it, what it counts."""

    batch: Batch
    generators: list[Generator]
    purposes: list[Purpose]
    run: Work
    counted: tuple[int, int, int]


class CapturedStep:
    """Learns from a batch, through a CUDA graph where that can be had; says in one line why where it cannot.

    Args:
        session: what learns.
        context: set to the step before each call.
        recorder: of graphs; the device's own when left out.
    """

    def __init__(self, session: Session, context: StepContext, recorder: Recorder | None = None) -> None:
        self._session, self._context = session, context
        self._recorder = recorder or _recorder(session)
        self._stopped: set[Kind] = set()
        self._taken: defaultdict[Kind, deque[tuple[int, bool]]] = defaultdict(lambda: deque(maxlen=STOPPING))
        """Passes of the last steps, and whether an attack stopped early in them."""
        self._purposes: dict[Kind, list[Purpose]] = {}
        self._counted: dict[Kind, tuple[int, int, int]] = {}
        self._captured: dict[Kind, _Captured] = {}
        self._queued: set[Kind] = set()
        self._changing = False

    def __call__(self, batch: Batch, update: bool) -> StepResult:
        """One step; what it returns holds until the next."""
        kind = self._kind(batch, update)
        if self._recorder is None or kind in self._queued or self._changes(kind):
            return one_step(self._session, self._context, batch, update, self._keep_gradients)
        captured = self._captured.get(kind)
        if captured is None and self._warmed(kind):
            captured = self._capture(kind, batch, update)
            if captured is None:
                return self(batch, update)
        return self._warm(kind, batch, update) if captured is None else self._replay(captured, batch)

    @property
    def _keep_gradients(self) -> bool:
        return self._recorder is not None and self._session.recipe.accumulate > 1

    def _kind(self, batch: Batch, update: bool) -> Kind:
        context, session = self._context, self._session
        phases = session.criterion.loss.phase(context.step), session.regime.phase(context.step, context.total)
        gathered = session.accelerator.gradient_accumulation_steps
        return tuple(batch.images.shape), batch.images.dtype, update, gathered, batch.known, phases

    def _changes(self, kind: Kind) -> bool:
        """Whether steps differ from one another for now, of which the user is told once."""
        if None in kind[-1] and not self._changing:
            console.say("steps are not captured as CUDA graphs yet: attacks grow from step to step")
            self._changing = True
        return None in kind[-1]

    def _patience(self, kind: Kind) -> int:
        return STOPPING if kind in self._stopped else WARM

    def _warmed(self, kind: Kind) -> bool:
        """Whether a kind can be captured; the step before it must not have stopped, so that it counts all passes."""
        taken = self._taken[kind]
        if len(taken) < self._patience(kind):
            return False
        passes, stopped = taken[-1]
        return not stopped and sum(found for found, _ in taken) >= (1 - SPARED) * passes * len(taken)

    def _warm(self, kind: Kind, batch: Batch, update: bool) -> StepResult:
        """Queue a step; take note of what it draws and whether it could be captured."""
        session, context = self._session, self._context
        purposes: list[Purpose] = []

        def drawn(purpose: Purpose) -> Generator:
            purposes.append(purpose)
            return context.fresh_generator(purpose)

        def work() -> StepResult:
            with context.drawing_from(drawn):
                return one_step(session, context, batch, update, self._keep_gradients)

        assert self._recorder is not None
        result, waits = self._recorder.warm(work, watched=len(self._taken[kind]) == self._patience(kind) - 1)
        if waits is not None:
            self._queue(kind, waits)
        if context.stopped_early:
            self._stopped.add(kind)
        self._taken[kind].append((context.passes, context.stopped_early))
        self._purposes[kind], self._counted[kind] = purposes, (context.passes, context.passed, context.looks)
        return result

    def _capture(self, kind: Kind, batch: Batch, update: bool) -> _Captured | None:
        """Record a step of this kind, if that works."""
        session, context, purposes = self._session, self._context, self._purposes[kind]
        if len(self._captured) == MOST:
            self._queue(kind, f"more than {MOST} kinds of batches")
            return None
        numbers = None if batch.numbers is None else batch.numbers.clone()
        static = Batch(batch.images.clone(), batch.labels.clone(), None, numbers, batch.known)
        generators = [context.fresh_generator(purpose) for purpose in purposes]

        def work() -> StepResult:
            supply = iter(generators)
            with context.drawing_from(lambda purpose: next(supply)):
                return one_step(session, context, static, update, self._keep_gradients)

        assert self._recorder is not None
        try:
            run = self._recorder.record(work, generators)
        except Exception as error:  # torch and CUDA raise many types; each means that steps are queued as before
            self._queue(kind, reason(error))
            if not self._keep_gradients:
                session.optimizer.zero_grad(set_to_none=True)
            context.start(context.step)
            return None
        made = self._captured[kind] = _Captured(static, generators, purposes, run, self._counted[kind])
        return made

    def _replay(self, captured: _Captured, batch: Batch) -> StepResult:
        """Run a recorded step on a batch."""
        context, static = self._context, captured.batch
        for place, value in _tensors(static, batch):
            place.copy_(value)
        for generator, purpose in zip(captured.generators, captured.purposes, strict=True):
            generator.manual_seed(context.seed_for(purpose))
        result = captured.run()
        context.passes, context.passed, context.looks = captured.counted
        return result

    def _queue(self, kind: Kind, why: str) -> None:
        """Leave steps of a kind as they are, and say so once."""
        if not self._queued:
            console.say(f"steps are not captured as CUDA graphs: {why}")
        self._queued.add(kind)


def _tensors(static: Batch, batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """Where a recorded step reads, and what it is to read."""
    yield static.images, batch.images
    yield static.labels, batch.labels
    if static.numbers is not None and batch.numbers is not None:
        yield static.numbers, batch.numbers


def _recorder(session: Session) -> Recorder | None:
    """The recorder of a session's device; none where nothing can be captured, of which a GPU's user is told."""
    if session.device.type != "cuda" or session.recipe.compile is False:
        return None
    why = obstacle(session)
    if why is None:
        return CudaRecorder(session.device)
    console.say(f"steps are not captured as CUDA graphs: {why}")
    return None


def obstacle(session: Session) -> str | None:
    """Why steps of a session cannot be captured, as far as that is known before the first; None if nothing is."""
    if current_processes().several:
        return "several processes share a step"
    if any(isinstance(part, Memory) for part in session.criterion.modules()):
        return "loss.memory grows from step to step"
    if not all(isinstance(group["lr"], Tensor) for group in session.optimizer.param_groups):
        return f"optimizer {session.recipe.optimizer.name} keeps its learning rate on the host"
    parts = [*_parts(session.regime), *_parts(session.criterion.loss), *session.model.modules()]
    for part in parts:
        if type(part).__module__.partition(".")[0] not in TRUSTED and not getattr(part, "capturable", False):
            return f"{type(part).__name__} may differ from step to step; if not, give the class `capturable = True`"
    return None


def _parts(thing: object) -> Iterator[object]:
    """A component of a recipe and all that it is made of."""
    if isinstance(thing, (list, tuple)):
        inner: Sequence[object] = thing
    elif isinstance(thing, dict):
        inner = list(thing.values())
    elif isinstance(thing, (Configurable, nn.Module)) or (
        dataclasses.is_dataclass(thing) and not isinstance(thing, type)
    ):
        yield thing
        inner = list(vars(thing).values())
    else:
        return
    for part in inner:
        yield from _parts(part)


def _watch(work: Work) -> tuple[StepResult, str | None]:
    """Run a step, and say where in it the host waited for the GPU first."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            result = work()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    where = None
    for warning in caught:
        text = str(warning.message)
        if "synchronizing CUDA operation" in text:
            where = where or f"{Path(warning.filename).name}, line {warning.lineno}, waits for the GPU"
        elif "Synchronization debug mode" not in text:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return result, where
