"""Images that are sent, taken in within limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from holdfast.serve.limits import MB, Limits

T = TypeVar("T")


class Intake:
    """Counts what is inside, and refuses what would be too much.

    Args:
        limits: of requests.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.inside = 0
        """Requests that are decoded, wait or are computed."""
        self._held = 0

    @contextmanager
    def entered(self) -> Iterator[None]:
        """In the block, be one of the requests inside; refused where there are too many."""
        if self.inside >= self.limits.waiting:
            raise _busy()
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    @asynccontextmanager
    async def image(self, request: Request) -> AsyncIterator[bytes]:
        """The image that a request brings; in the block, the request is one of those inside."""
        if request.headers.get("content-type", "").lower().startswith("multipart/"):
            raise HTTPException(415, "send the image itself as the body: curl --data-binary @photo.jpg ADDRESS")
        content = bytearray()
        try:
            read = self._read_into(content, request)
            await within(read, self.limits.reading, 408, "the image did not arrive in time")
            with self.entered():
                yield bytes(content)
        finally:
            self._held -= len(content)

    async def _read_into(self, content: bytearray, request: Request) -> None:
        told = request.headers.get("content-length", "")
        if told.isdecimal() and len(told) < 20 and int(told) > self.limits.body:
            raise self._too_large()
        async for chunk in request.stream():
            if len(content) + len(chunk) > self.limits.body:
                raise self._too_large()
            content += chunk
            self._held += len(chunk)
            if self._held > self.limits.bodies:
                raise _busy()
        if not content:
            raise HTTPException(400, "the body is empty; send an image: curl --data-binary @photo.jpg ADDRESS")

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"an image may have at most {self.limits.body / MB:g} MB; send a smaller copy")


async def within(work: Awaitable[T], seconds: float, status: int, why: str) -> T:
    """What comes of some work; refused where it takes too long."""
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError:
        raise HTTPException(status, why) from None


def _busy() -> HTTPException:
    return HTTPException(503, "there is too much to do; try again", {"Retry-After": "1"})
