"""What every request passes: the token, and the counters."""

from __future__ import annotations

import hmac
import time

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.serve.metrics import ServerMetrics

OPEN = ("/", "/health")
"""What is answered without the token: a page that holds nothing, and whether the server answers."""


def _path(scope: Scope) -> str:
    """The path as the routes have it, wherever the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


class Guard:
    """Lets in who bears the token.

    Args:
        app: what is guarded.
        token: None lets everybody in.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        asks = scope["type"] == "http"
        scope["let_in"] = self._token is None or (asks and self._bears(scope))
        if scope["let_in"] or not asks or _path(scope) in OPEN:
            await self._app(scope, receive, send)
            return
        headers = {"WWW-Authenticate": "Bearer"}
        refused = JSONResponse({"error": "a token is needed: Authorization: Bearer TOKEN"}, 401, headers)
        await refused(scope, receive, send)

    def _bears(self, scope: Scope) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(given, f"Bearer {self._token}".encode())


class Counted:
    """Counts answers and how long they took.

    Args:
        app: what is counted.
        metrics: where.
        paths: that are named; all others count as one.
    """

    def __init__(self, app: ASGIApp, metrics: ServerMetrics, paths: list[str]) -> None:
        self._app, self._metrics, self._paths = app, metrics, frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, path = time.perf_counter(), _path(scope) if _path(scope) in self._paths else "other"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.labels(path, str(message["status"])).inc()
                self._metrics.seconds.labels(path).observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, counted)
