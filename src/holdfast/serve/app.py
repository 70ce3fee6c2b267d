"""Requests and answers: routes, tokens, limits, errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from holdfast.data import BadImage
from holdfast.errors import ModelError
from holdfast.robustness import what_no_mark_means
from holdfast.serve.batching import Batcher
from holdfast.serve.limits import MB, Limits
from holdfast.serve.metrics import ServerMetrics
from holdfast.serve.middleware import Counted, Guard
from holdfast.serve.openapi import description, page
from holdfast.serve.service import Asked, Found, Service
from holdfast.version import __version__

T = TypeVar("T")

DECODERS = 2
"""Threads that decode images; each may hold a large one."""


def build_app(service: Service, limits: Limits | None = None, token: str | None = None) -> Starlette:
    """The web application of a service.

    Args:
        service: model and index.
        limits: of requests.
        token: that every request must bear; None lets everybody in.
    """
    api = Api(service, limits or Limits())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            api.close()

    app = Starlette(
        routes=[
            Route("/search", api.search, methods=["POST"]),
            Route("/embed", api.embed, methods=["POST"]),
            Route("/health", api.health),
            Route("/metrics", api.metrics_text),
            Route("/openapi.json", api.openapi),
            Route("/docs", api.docs),
        ],
        exception_handlers={HTTPException: _refused, ClientDisconnect: _gone, Exception: _failed},  # type: ignore[dict-item]
        lifespan=lifespan,
    )
    app.add_middleware(Guard, token=token)
    app.add_middleware(Counted, metrics=api.metrics, paths=[route.path for route in app.routes])  # type: ignore[attr-defined]
    return app


class Api:
    """What each address does.

    Args:
        service: model and index.
        limits: of requests.
    """

    def __init__(self, service: Service, limits: Limits) -> None:
        self.service, self.limits = service, limits
        self.metrics = ServerMetrics(len(service.searcher.index), lambda: self._inside)
        self._batcher: Batcher[Asked, Found] = Batcher(self._compute, limits.batch)
        self._decoders = ThreadPoolExecutor(DECODERS, "holdfast-decode")
        self._inside = self._held = 0
        self._description = description(service, limits)

    def close(self) -> None:
        """Let go of the threads."""
        self._batcher.close()
        self._decoders.shutdown()

    async def search(self, request: Request) -> Response:
        """Neighbours of an image."""
        found = await self._found(request, self._matches(request))
        assert found.answer is not None
        answer, searcher = found.answer.document(), self.service.searcher
        if answer["tampered"]:
            self.metrics.tampered.inc()
        answer.pop("query")
        return JSONResponse({**answer, "threshold": searcher.threshold, "unchecked": searcher.unchecked or None})

    async def embed(self, request: Request) -> Response:
        """The vector of an image."""
        found = await self._found(request, 0)
        return JSONResponse({"vector": found.vector.tolist(), "dim": self.service.dim})

    async def health(self, request: Request) -> Response:
        """Whether it answers; to those who may ask more, about what."""
        index = self.service.searcher.index
        about = {
            "images": len(index),
            "dim": index.dim,
            "kind": index.kind,
            "model": index.model.reference,
            "threshold": self.service.searcher.threshold,
            "unchecked": self.service.searcher.unchecked or None,
            "robustness": what_no_mark_means(index.model.audit) or None,
            "version": __version__,
        }
        return JSONResponse({"status": "ok", **(about if request.scope["let_in"] else {})})

    async def metrics_text(self, _: Request) -> Response:
        """Counters."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, _: Request) -> Response:
        """This interface, for programs."""
        return JSONResponse(self._description)

    async def docs(self, _: Request) -> Response:
        """This interface, for people."""
        return HTMLResponse(page(self._description))

    def _matches(self, request: Request) -> int:
        """How many neighbours are wanted."""
        text = request.query_params.get("k", "10")
        if not (text.isascii() and text.isdecimal() and len(text) < 9 and 1 <= int(text) <= self.limits.matches):
            raise HTTPException(400, f"k is a whole number from 1 to {self.limits.matches}")
        return int(text)

    async def _found(self, request: Request, k: int) -> Found:
        """What came of the image that a request brings."""
        if request.headers.get("content-type", "").lower().startswith("multipart/"):
            raise HTTPException(415, "send the image itself as the body: curl --data-binary @photo.jpg ADDRESS")
        content = await self._within(self._body(request), self.limits.reading, 408, "the image did not arrive in time")
        try:
            with self._entered():
                return await self._within(
                    self._answer(content, k), self.limits.seconds, 503, "there was too much to do; try again"
                )
        finally:
            self._held -= len(content)

    async def _body(self, request: Request) -> bytes:
        """The body of a request, counted as held until its answer."""
        content = bytearray()
        try:
            self._check_length(request)
            async for chunk in request.stream():
                content += chunk
                self._held += len(chunk)
                if len(content) > self.limits.body:
                    await self._let_finish(request)
                    raise self._too_large()
                if self._held > self.limits.bodies:
                    raise _busy()
            if not content:
                raise HTTPException(400, "the body is empty; send an image: curl --data-binary @photo.jpg ADDRESS")
        except BaseException:
            self._held -= len(content)
            raise
        return bytes(content)

    async def _let_finish(self, request: Request) -> None:
        """Read on for as much again, so that who is still sending hears the answer."""
        left = self.limits.body
        async for chunk in request.stream():
            left -= len(chunk)
            if left < 0:
                return

    def _check_length(self, request: Request) -> None:
        told = request.headers.get("content-length", "")
        if told.isdecimal() and len(told) < 20 and int(told) > self.limits.body:
            raise self._too_large()

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"an image may have at most {self.limits.body / MB:g} MB; send a smaller copy")

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """Be one of the requests inside; refused where there are too many."""
        if self._inside >= self.limits.waiting:
            raise _busy()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    async def _answer(self, content: bytes, k: int) -> Found:
        loop = asyncio.get_running_loop()
        try:
            pixels = await loop.run_in_executor(self._decoders, self.service.read, content, self.limits.pixels)
            return await self._batcher.submit(Asked(pixels, k))
        except BadImage as error:
            raise HTTPException(400, f"the body is no image that can be used: {error.reason}") from None
        except ModelError as error:
            raise HTTPException(422, str(error)) from None

    def _compute(self, asked: list[Asked]) -> Any:
        self.metrics.batches.observe(len(asked))
        return self.service.compute(asked)

    async def _within(self, work: Awaitable[T], seconds: float, status: int, why: str) -> T:
        try:
            return await asyncio.wait_for(work, seconds)
        except asyncio.TimeoutError:
            raise HTTPException(status, why, {"Connection": "close"}) from None


def _busy() -> HTTPException:
    return HTTPException(503, "there is too much to do; try again", {"Retry-After": "1"})


def _refused(_: Request, error: HTTPException) -> Response:
    """One line on what to do otherwise; a body that was not read to its end is not waited for."""
    headers = (
        {"Connection": "close", **(error.headers or {})} if error.status_code in (408, 413, 415) else error.headers
    )
    return JSONResponse({"error": error.detail}, error.status_code, headers)


def _gone(_: Request, __: Exception) -> Response:
    """Who asked has left; nobody hears this."""
    return Response(status_code=400)


def _failed(_: Request, __: Exception) -> Response:
    """What went wrong is written where the server runs, not to strangers."""
    return JSONResponse({"error": "the server failed on this request; its log says why"}, 500)
