"""Listen at an address until told to stop, and then finish what was begun."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

import uvicorn

from holdfast.errors import HoldfastError
from holdfast.serve.app import build_app
from holdfast.serve.gallery import GalleryImages
from holdfast.serve.limits import Limits
from holdfast.serve.protocol import GuardedProtocol
from holdfast.serve.service import Service

BACKLOG = 2048
"""Connections that wait to be taken."""

KEPT = 15
"""Seconds for which a connection without requests stays open."""


def serve(
    services: Mapping[str, Service],
    host: str,
    port: int,
    limits: Limits,
    token: str | None,
    ready: Callable[[str], None],
    gallery: GalleryImages | None = None,
) -> None:
    """Answer requests until SIGTERM or SIGINT; what was begun is answered before.

    Args:
        services: models with their indexes, by name.
        host: address to listen at.
        port: 0 for any that is free.
        limits: of requests.
        token: that requests must bear.
        ready: told the address when requests are answered.
        gallery: the images of the indexes.
    """
    for service in services.values():
        service.prepare()
    server = make_server(services, limits, token, gallery)
    with listening(host, port) as listener, _stopped_quietly():
        ready(f"http://{_shown(host)}:{listener.getsockname()[1]}")
        server.run(sockets=[listener])


def make_server(
    services: Mapping[str, Service], limits: Limits, token: str | None = None, gallery: GalleryImages | None = None
) -> uvicorn.Server:
    """A server that stops in good order when it is told to."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        build_app(services, limits, token, gallery),
        http=type("Protocol", (GuardedProtocol,), {"patience": limits.reading}),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        limit_concurrency=limits.connections,
        timeout_keep_alive=KEPT,
        timeout_graceful_shutdown=round(limits.reading + limits.seconds) + 1,
    )
    return uvicorn.Server(config)


def is_local(host: str) -> bool:
    """Whether only programs of this machine reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket to which programs may connect."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its number: else asyncio lets answers wait for 40 ms, to be sent together with others (Nagle).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)  # who is told the address may connect at once
    except (OSError, OverflowError) as error:  # the latter where no port has such a number
        listener.close()
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise HoldfastError(f"cannot listen at {_shown(host)}:{port} ({why}); give another --host or --port") from error
    with listener:
        yield listener


@contextlib.contextmanager
def _stopped_quietly() -> Iterator[None]:
    """In the block, a signal that the server has obeyed does not end the program once more."""

    def obeyed(_: int, __: FrameType | None) -> None:
        pass

    before = {number: signal.signal(number, obeyed) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
