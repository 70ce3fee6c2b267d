from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch.distributed as dist

from holdfast.processes.joining import Heartbeat

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="needs torch.distributed")
LONG = 20.0
"""Seconds after which a test gives up waiting."""


class Gone:
    """A store whose holder has closed the connection."""

    def add(self, key: str, count: int) -> int:
        raise RuntimeError("connection closed")


class Pair:
    """Two heartbeats, and what the first heard about the second."""

    def __init__(self) -> None:
        store = dist.HashStore()
        self.heard: list[int | None] = []
        self.told = threading.Event()
        self.watching = Heartbeat(store, 0, 2, "test", self._note, every=0.01, silence=0.5)
        self.other = Heartbeat(store, 1, 2, "test", lambda rank: None, every=0.01, silence=LONG)

    def _note(self, rank: int | None) -> None:
        self.heard.append(rank)
        self.told.set()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    made.watching.start()
    made.other.start()
    yield made
    made.watching.stop()
    made.other.stop()


def test_a_process_that_falls_silent_is_missed(pair: Pair) -> None:
    pair.other.stop()
    assert pair.told.wait(LONG)
    assert pair.heard == [1]


def test_a_process_that_never_came_is_missed() -> None:
    pair = Pair()
    pair.watching.start()
    assert pair.told.wait(LONG)
    assert pair.heard == [1]


def test_a_process_that_takes_its_leave_is_not(pair: Pair) -> None:
    pair.other.leaving = True
    pair.other.stop()
    assert not pair.told.wait(1.5)


def test_a_store_that_is_gone_is_missed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair.watching, "store", Gone())
    assert pair.told.wait(LONG)
    assert pair.heard == [None]


def test_a_store_that_does_not_answer_is_missed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    mended = threading.Event()

    class Hung:
        def add(self, key: str, count: int) -> int:
            mended.wait(LONG)
            return count

    monkeypatch.setattr(pair.watching, "store", Hung())
    assert pair.told.wait(LONG)
    mended.set()
    assert pair.heard == [None]


def test_a_process_that_waits_for_the_last_one_still_misses_it(pair: Pair) -> None:
    pair.watching.leaving = True
    pair.other.stop()
    assert pair.told.wait(LONG)
    assert pair.heard == [1]


def test_a_store_that_leaves_with_its_holder_is_not_missed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.watching.leaving = True
    monkeypatch.setattr(pair.watching, "store", Gone())
    pair.watching.stop()
    assert not pair.told.wait(1.5)
