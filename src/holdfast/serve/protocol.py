"""Connections on which nobody finishes a request are closed."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 2**16
"""Bytes of a request before its body."""


class GuardedProtocol(HttpToolsProtocol):
    """Closes a connection whose next request has not begun in time, or begins without end.

    A request has begun when all of its headers are there; uvicorn would wait for them for ever. Of a request that was
    answered before its body was read, such as one that was refused, the rest is taken in and forgotten: whoever is
    still sending would hear of a closed connection in place of the answer.
    """

    patience: float = 10.0
    """Seconds for the headers of a request to arrive, or for the rest of one that was answered."""

    _timer: asyncio.TimerHandle | None = None
    _head = 0
    _in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Somebody says something."""
        self._head += len(data)
        super().data_received(data)
        self._watch()

    def on_headers_complete(self) -> None:
        """What follows is a body, if there is one."""
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request is there to its end."""
        super().on_message_complete()
        self._in_body = False
        self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._forget()
        super().connection_lost(exc)

    def _waits(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        if not self._waits():
            self._forget()
        elif self._head > LONGEST_HEAD and not self._in_body:
            self.transport.close()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.patience, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._waits():
            self.transport.close()

    def _forget(self) -> None:
        self._head = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
