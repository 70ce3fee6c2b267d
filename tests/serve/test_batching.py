from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.serve.batching import Batcher


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    """What comes of it, in a thread of its own: a browser of other tests has a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result(60)


def test_a_lone_item_does_not_wait_and_those_that_come_meanwhile_go_together() -> None:
    batches: list[list[int]] = []
    hold = threading.Event()

    def work(items: list[int]) -> list[int]:
        batches.append(items)
        hold.wait(10)
        return [10 * item for item in items]

    async def run() -> list[int]:
        batcher: Batcher[int, int] = Batcher(work, most=3)
        tasks = [asyncio.create_task(batcher.submit(item)) for item in range(6)]
        while not batches:
            await asyncio.sleep(0.001)
        hold.set()
        found = await asyncio.gather(*tasks)
        batcher.close()
        return found

    assert finished(run()) == [0, 10, 20, 30, 40, 50]
    assert batches == [[0], [1, 2, 3], [4, 5]]


def test_what_nobody_waits_for_any_more_is_not_computed() -> None:
    seen: list[int] = []
    hold = threading.Event()

    def work(items: list[int]) -> list[int]:
        seen.extend(items)
        hold.wait(10)
        return items

    async def run() -> None:
        batcher: Batcher[int, int] = Batcher(work, most=1)
        tasks = [asyncio.create_task(batcher.submit(item)) for item in range(3)]
        while not seen:
            await asyncio.sleep(0.001)
        tasks[1].cancel()
        await asyncio.sleep(0)
        hold.set()
        assert await tasks[2] == 2
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        batcher.close()

    finished(run())
    assert seen == [0, 2]


def test_an_error_of_one_is_not_that_of_the_others_and_work_goes_on() -> None:
    def work(items: list[int]) -> list[int | Exception]:
        if 9 in items:
            raise RuntimeError("all of them")
        return [ValueError("odd") if item % 2 else item for item in items]

    async def run() -> None:
        batcher: Batcher[int, int] = Batcher(work, most=4)
        found = await asyncio.gather(*(batcher.submit(item) for item in range(4)), return_exceptions=True)
        assert [type(each) for each in found] == [int, ValueError, int, ValueError]
        with pytest.raises(RuntimeError):
            await batcher.submit(9)
        assert await batcher.submit(4) == 4
        batcher.close()

    finished(run())
