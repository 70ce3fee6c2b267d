"""Bodies that are nearly images, and requests that are nearly requests."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from served import ask, png, process

from holdfast.search import create_index
from index_cases import picture_table, pictures, small_model

KINDS = ("png", "jpeg", "webp", "gif", "bmp", "tiff")
REFUSED = {400, 413, 422}


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fuzzed") / "pictures.index"
    create_index(place, small_model(), picture_table(pictures(40)), calibrate=20)
    return place


@pytest.fixture(scope="module")
def port(few: Path) -> Iterator[int]:
    with process(few) as (running, found):
        yield found
        assert running.poll() is None, "still alive"


def nearly_images(count: int, seed: int) -> Iterator[bytes]:
    """Image files with bytes changed, cut out, doubled or cut off, some of them with another's beginning."""
    draw = random.Random(seed)
    noise = np.random.default_rng(seed).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    whole = [png(noise, kind) for kind in KINDS]
    for _ in range(count):
        body = bytearray(draw.choice(whole))
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(body) or 1)
            change = draw.randrange(5)
            if change == 0:
                body[at : at + 1] = bytes([draw.randrange(256)])
            elif change == 1:
                del body[at : at + draw.randint(1, 40)]
            elif change == 2:
                body[at:at] = body[at : at + draw.randint(1, 200)]
            elif change == 3:
                body[at : at + 4] = draw.randbytes(4)
            else:
                body[: draw.randint(1, 24)] = draw.choice(whole)[: draw.randint(1, 24)]
        yield bytes(body) or b"x"


def fuzz(port: int, count: int, seed: int) -> None:
    refused = 0
    for body in nearly_images(count, seed):
        reply = ask(port, "/search?k=1", body)
        assert reply.status == 200 or reply.status in REFUSED, (reply, body)
        if reply.status != 200:
            refused += 1
            line = reply.json["error"]
            assert "\n" not in line
            assert "/" not in line.replace("image/", ""), "no path of the host"
    assert 0 < refused < count
    assert ask(port, "/search", png(pictures(1)[0])).status == 200


def test_bodies_that_are_nearly_images_are_answered_or_refused(port: int) -> None:
    fuzz(port, 300, seed=0)


@pytest.mark.slow
def test_ten_thousand_bodies_that_are_nearly_images(port: int) -> None:
    fuzz(port, 10_000, seed=1)


def test_a_bomb_is_not_decoded(port: int) -> None:
    bomb = bytearray(png(np.zeros((24, 24, 3), np.uint8)))
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2  # width and height; the checksum is not looked at before
    reply = ask(port, "/search", bytes(bomb))
    assert reply.status == 400
    black = png(np.zeros((7200, 7200, 3), np.uint8))  # 52 million pixels in some kilobytes
    assert len(black) < 1_000_000
    reply = ask(port, "/embed", black)
    assert (reply.status, "too many" in reply.json["error"]) == (400, True)


@pytest.mark.parametrize(
    "request_",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 7\r\n\r\nabc",
        b"POST /search HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 200_000 + b"\r\n\r\n",
        b"GET /\xff\xfe\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_no_request_does_no_harm(port: int, request_: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.settimeout(5)
        try:
            connection.sendall(request_)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        except OSError:  # it was closed before all was said
            answer = b""
    assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 200")), answer[:80]
    assert ask(port, "/health").status == 200
