"""The web application: its routes, and how it refuses."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.errors import ModelError, SearchError
from holdfast.serve.api import Api
from holdfast.serve.gallery import GalleryImages
from holdfast.serve.limits import Limits
from holdfast.serve.middleware import Counted, Guard
from holdfast.serve.service import Service


def build_app(
    services: Service | Mapping[str, Service],
    limits: Limits | None = None,
    token: str | None = None,
    gallery: GalleryImages | None = None,
) -> Starlette:
    """The web application of one index or several.

    Args:
        services: models with their indexes, by names that requests give as `index`; the first is asked when they give
            none.
        limits: of requests.
        token: that every request must bear; None lets everybody in.
        gallery: the images of the indexes, for the page.
    """
    named = {"index": services} if isinstance(services, Service) else dict(services)
    api = Api(named, limits or Limits(), gallery)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            api.close()

    routes = [
        Route("/", api.page),
        Route("/search", api.search, methods=["POST"]),
        Route("/attack", api.attack, methods=["POST"]),
        Route("/embed", api.embed, methods=["POST"]),
        Route("/image", api.image),
        Route("/samples", api.samples),
        Route("/health", api.health),
        Route("/metrics", api.metrics_text),
        Route("/openapi.json", api.openapi),
        Route("/docs", api.docs),
    ]
    handlers: Any = {
        HTTPException: _refused,
        ModelError: _unusable,
        SearchError: _unreachable,
        ClientDisconnect: _gone,
        Exception: _failed,
    }
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.add_middleware(Guard, token=token)
    app.add_middleware(Counted, metrics=api.metrics, paths=[route.path for route in routes])
    return app


def _refused(_: Request, error: HTTPException) -> Response:
    """One line on what to do otherwise; a body that was too slow is not waited for any longer."""
    slow = {"Connection": "close"} if error.status_code == 408 else {}
    return JSONResponse({"error": error.detail}, error.status_code, {**slow, **(error.headers or {})})


def _unusable(_: Request, error: ModelError) -> Response:
    """The model cannot do with this image what was asked."""
    return JSONResponse({"error": str(error)}, 422)


def _unreachable(_: Request, error: SearchError) -> Response:
    """What holds the vectors does not answer; where that is, strangers need not know."""
    logging.getLogger("uvicorn.error").error(str(error))
    return JSONResponse({"error": "the index cannot be reached; try again later"}, 503)


def _gone(_: Request, __: Exception) -> Response:
    """Who asked has left; nobody hears this."""
    return Response(status_code=400)


def _failed(_: Request, __: Exception) -> Response:
    """What went wrong is written where the server runs, not to strangers."""
    return JSONResponse({"error": "the server failed on this request; its log says why"}, 500)
