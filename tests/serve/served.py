"""A server of a small index, in a thread of this process or in a process of its own."""

from __future__ import annotations

import http.client
import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.serve import GalleryImages, Limits, Service
from holdfast.serve.server import listening, make_server

COUNT = 150
"""Pictures in the index."""


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


def ask(
    port: int,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    method: str | None = None,
    timeout: float = 30,
) -> Reply:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        given = dict(headers or {})
        kind = method or ("GET" if body is None else "POST")
        connection.request(kind, path, body, given, encode_chunked="Transfer-Encoding" in given)
        answer = connection.getresponse()
        return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def png(pixels: NDArray[np.uint8], kind: str = "png") -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


@contextmanager
def served(
    service: Service | dict[str, Service],
    limits: Limits | None = None,
    token: str | None = None,
    gallery: GalleryImages | None = None,
) -> Iterator[int]:
    """The port of a server in a thread of this process."""
    services = service if isinstance(service, dict) else {"pictures": service}
    server = make_server(services, limits or Limits(), token, gallery)
    with listening("127.0.0.1", 0) as listener:
        port = int(listener.getsockname()[1])
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@contextmanager
def process(index: Path, *options: object, env: Mapping[str, str] | None = None) -> Iterator[tuple[Any, int]]:
    """`holdfast serve`, and its port."""
    words = [sys.executable, "-m", "holdfast", "serve", str(index), "--port", "0", "--json", *map(str, options)]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert line, running.communicate()[1]
        yield running, int(json.loads(line)["address"].rpartition(":")[2])
    finally:
        running.kill()
        running.communicate()
