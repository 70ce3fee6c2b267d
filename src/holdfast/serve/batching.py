"""Requests that arrive together are computed together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Computes items in one thread, all that wait when it is free at once.

    Nothing waits for company: a lone item is begun at once, and whatever arrives meanwhile makes up the next batch.

    Args:
        work: items to a result, or an error, for each; called in the thread.
        most: items of one batch.
    """

    def __init__(self, work: Callable[[list[Item]], Sequence[Result | Exception]], most: int) -> None:
        self._work, self._most = work, most
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._thread = ThreadPoolExecutor(1, "holdfast-batch")
        self._busy = False

    async def submit(self, item: Item) -> Result:
        """The result of an item; one whose caller gives up before it is begun is never computed."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if not self._busy:
            self._begin()
        return await future

    def close(self) -> None:
        """Let go of the thread, once it has nothing to do any more."""
        self._thread.shutdown()

    def _begin(self) -> None:
        batch: list[tuple[Item, asyncio.Future[Result]]] = []
        while self._waiting and len(batch) < self._most:
            item, future = self._waiting.popleft()
            if not future.done():
                batch.append((item, future))
        self._busy = bool(batch)
        if batch:
            work = asyncio.get_running_loop().run_in_executor(self._thread, self._work, [item for item, _ in batch])
            work.add_done_callback(partial(self._deliver, [future for _, future in batch]))

    def _deliver(
        self, futures: list[asyncio.Future[Result]], work: asyncio.Future[Sequence[Result | Exception]]
    ) -> None:
        error = work.exception()
        results = work.result() if error is None else [error] * len(futures)
        for future, result in zip(futures, results, strict=True):
            if future.done():
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)
        self._begin()
