"""What each address of a server does."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import random
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from holdfast.data import BadImage
from holdfast.data.resampling import Pixels
from holdfast.robustness import what_no_mark_means
from holdfast.search import Answer, Filter
from holdfast.serve.batching import Batcher
from holdfast.serve.gallery import GalleryImages
from holdfast.serve.intake import Intake, within
from holdfast.serve.limits import Limits
from holdfast.serve.metrics import ServerMetrics
from holdfast.serve.openapi import description, page
from holdfast.serve.parameters import Parameters
from holdfast.serve.service import ANY, AttackedImage, SearchReply, SearchRequest, Service
from holdfast.version import __version__

T = TypeVar("T")

DECODERS = 2
"""Threads that decode images; each may hold a large one."""

SAMPLES = 12
"""Images of the gallery that the page offers."""


class Api:
    """What each address does.

    Args:
        services: models with their indexes, by name.
        limits: of requests.
        gallery: the images of the indexes.
    """

    def __init__(self, services: dict[str, Service], limits: Limits, gallery: GalleryImages | None) -> None:
        self.services, self.limits, self.gallery = services, limits, gallery
        self.intake, self.parameters = Intake(limits), Parameters(list(services), limits)
        self.sizes = {name: len(service.searcher.index) for name, service in services.items()}
        self.metrics = ServerMetrics(self.sizes, lambda: self.intake.inside)
        self._batchers: dict[str, Batcher[SearchRequest, SearchReply]] = {
            name: Batcher(partial(self._compute, service), limits.batch) for name, service in services.items()
        }
        self._decoders = ThreadPoolExecutor(DECODERS, "holdfast-decode")
        self._attacker = ThreadPoolExecutor(1, "holdfast-attack")
        self._description = description(services, limits)
        first = next(iter(services.values())).searcher.index
        self._shown = [] if gallery is None else gallery.shown(first)

    def close(self) -> None:
        """Let go of the threads."""
        for batcher in self._batchers.values():
            batcher.close()
        for threads in (self._decoders, self._attacker):
            threads.shutdown()

    async def search(self, request: Request) -> Response:
        """Neighbours of an image."""
        told = self.parameters
        name, k, where = told.index(request), told.matches(request), told.where(request)
        async with self.intake.image(request) as content:
            found = await self._in_time(self._found(name, content, k, where))
        return JSONResponse(self._told(name, found.answer))

    async def embed(self, request: Request) -> Response:
        """The vector of an image."""
        name = self.parameters.index(request)
        async with self.intake.image(request) as content:
            found = await self._in_time(self._found(name, content, 0))
        return JSONResponse({"vector": found.vector.tolist(), "dim": self.services[name].dim})

    async def attack(self, request: Request) -> Response:
        """Neighbours of an image after an attack on it."""
        told = self.parameters
        name, k, where, eps = told.index(request), told.matches(request), told.where(request), told.eps(request)
        service = self.services[name]
        if not service.attackable:
            raise HTTPException(422, "this model has no gradients to attack by; serve the one it was exported from")
        async with self.intake.image(request) as content:
            attacked = await self._in_time(self._attacked(service, content, eps, k, where))
        image = f"data:image/png;base64,{base64.b64encode(attacked.png).decode()}"
        return JSONResponse({**self._told(name, attacked.found.answer), "image": image, "moved": attacked.moved})

    async def image(self, request: Request) -> Response:
        """An image of the index."""
        content = None
        if self.gallery is not None:
            with self.intake.entered():
                content = await _run(self._decoders, self.gallery.png, request.query_params.get("id", ""))
        if content is None:
            raise HTTPException(404, "there is no image of that name here")
        return Response(content, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})

    async def samples(self, request: Request) -> Response:
        """Names of a few images to begin with."""
        text = request.query_params.get("seed", "0")
        seed = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
        return JSONResponse({"samples": random.Random(seed).sample(self._shown, min(SAMPLES, len(self._shown)))})

    async def health(self, request: Request) -> Response:
        """Whether it answers; to those who may ask more, about what."""
        if not request.scope["let_in"]:
            return JSONResponse({"status": "ok"})
        about = [self._about(name) for name in self.services]
        return JSONResponse(
            {"status": "ok", "indexes": about, "images_shown": self.gallery is not None, "version": __version__}
        )

    async def metrics_text(self, _: Request) -> Response:
        """Counters."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, _: Request) -> Response:
        """This interface, for programs."""
        return JSONResponse(self._description)

    async def docs(self, _: Request) -> Response:
        """This interface, for people."""
        return HTMLResponse(page(self._description))

    async def page(self, _: Request) -> Response:
        """The page to try it on; it holds nothing of the index, and asks for the token where there is one."""
        text = files("holdfast.serve").joinpath("page.html").read_text(encoding="utf-8")
        script = text.partition("<script>")[2].partition("</script>")[0]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        allowed = f"script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src blob: data:; connect-src 'self'"
        return HTMLResponse(text, headers={"Content-Security-Policy": f"default-src 'none'; {allowed}"})

    def _about(self, name: str) -> dict[str, Any]:
        service = self.services[name]
        searcher = service.searcher
        index = searcher.index
        return {
            "name": name,
            "images": self.sizes[name],
            "dim": index.dim,
            "kind": index.kind,
            "model": index.model.reference,
            "threshold": searcher.threshold,
            "unchecked": searcher.unchecked or None,
            "robustness": what_no_mark_means(index.model.audit, not searcher.unchecked) or None,
            "attackable": service.attackable,
        }

    def _told(self, name: str, answer: Answer | None) -> dict[str, Any]:
        """An answer as it is sent."""
        searcher = self.services[name].searcher
        told = {} if answer is None else answer.document()
        told.pop("query", None)
        if told.get("tampered"):
            self.metrics.tampered.inc()
        return {**told, "threshold": searcher.threshold, "unchecked": searcher.unchecked or None}

    async def _in_time(self, work: Awaitable[T]) -> T:
        return await within(work, self.limits.seconds, 503, "there was too much to do; try again")

    async def _found(self, name: str, content: bytes, k: int, where: Filter = ANY) -> SearchReply:
        pixels = await self._decoded(self.services[name], content)
        return await self._batchers[name].submit(SearchRequest(pixels, k, where))

    async def _attacked(self, service: Service, content: bytes, eps: float, k: int, where: Filter) -> AttackedImage:
        pixels = await self._decoded(service, content)
        return await _run(self._attacker, service.attack, pixels, eps, k, where)

    async def _decoded(self, service: Service, content: bytes) -> Pixels:
        try:
            return await _run(self._decoders, service.read, content, self.limits.pixels)
        except BadImage as error:
            raise HTTPException(400, f"the body is no image that can be used: {error.reason}") from None

    def _compute(self, service: Service, asked: list[SearchRequest]) -> Any:
        self.metrics.batches.observe(len(asked))
        return service.compute(asked)


async def _run(threads: ThreadPoolExecutor, work: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, work, *arguments)
