"""What those who ask a server get."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import http.client
import io
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from served import COUNT, ask, png, process, served
from starlette.applications import Starlette
from starlette.routing import Mount

from holdfast.cli import main
from holdfast.data.augment import to_float
from holdfast.models.export import export_onnx
from holdfast.search import Searcher
from holdfast.serve import GalleryImages, Limits, Service, build_app
from index_cases import index_of, picture_table, pictures, small_model, unit_vectors

SECRET = "correct horse"


@pytest.fixture(scope="module")
def port(service: Service) -> Iterator[int]:
    with served(service) as found:
        yield found


def test_a_search_is_that_of_the_command(
    port: int, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, picture in enumerate([pictures(COUNT)[3], pictures(1, seed=77)[0]]):
        file = tmp_path / f"{seed}.png"
        file.write_bytes(png(picture))
        capsys.readouterr()
        words = ["search", folder, "--query", file, "-k", "4", "--json", "--false-alarms", "0.02"]
        assert main([str(word) for word in words]) == 0
        (expected,) = json.loads(capsys.readouterr().out)["answers"]
        reply = ask(port, "/search?k=4", file.read_bytes())
        assert reply.status == 200
        found = reply.json
        assert [m["id"] for m in found["matches"]] == [m["id"] for m in expected["matches"]]
        assert [m["label"] for m in found["matches"]] == [m["label"] for m in expected["matches"]]
        assert [m["same"] for m in found["matches"]] == [m["same"] for m in expected["matches"]]
        np.testing.assert_allclose(
            [m["distance"] for m in found["matches"]], [m["distance"] for m in expected["matches"]], atol=1e-5
        )
        assert (found["tampered"], found["why"]) == (expected["tampered"], expected["why"])
        assert (found["threshold"], found["unchecked"]) == (0.3, None)
    assert found["matches"][0]["same"] in (True, False)


def test_a_vector_is_that_of_the_model(port: int) -> None:
    picture = pictures(1, seed=5)[0]
    found = ask(port, "/embed", png(picture)).json
    images = to_float(torch.from_numpy(picture).permute(2, 0, 1)[None])
    with torch.no_grad():
        np.testing.assert_allclose(found["vector"], small_model()(images)[0].numpy(), atol=1e-5)
    assert found["dim"] == len(found["vector"]) == 8


@pytest.mark.parametrize("kind", ["jpeg", "webp", "gif", "bmp", "tiff"])
def test_images_of_the_usual_formats_are_taken(port: int, kind: str) -> None:
    assert len(ask(port, "/search?k=2", png(pictures(1)[0], kind)).json["matches"]) == 2


def test_what_a_server_says_of_itself(port: int) -> None:
    told = ask(port, "/health").json
    assert (told["status"], told["images_shown"]) == ("ok", False)
    (about,) = told["indexes"]
    assert (about["name"], about["images"], about["dim"], about["model"]) == ("pictures", COUNT, 8, "small")
    assert (about["threshold"], about["attackable"]) == (0.3, True)
    ask(port, "/search", png(pictures(1)[0]))
    ask(port, "/nowhere")
    counted = ask(port, "/metrics").content.decode()
    assert re.search(r'^holdfast_requests_total\{path="/search",status="200"\} [1-9]', counted, re.M)
    assert re.search(r'^holdfast_requests_total\{path="other",status="404"\} [1-9]', counted, re.M)
    assert re.search(rf'^holdfast_index_images\{{index="pictures"\}} {COUNT}\.0$', counted, re.M)
    assert re.search(r"^holdfast_requests_inside 0\.0$", counted, re.M)
    described = ask(port, "/openapi.json").json
    assert described["openapi"].startswith("3.")
    page = ask(port, "/docs").content.decode()
    for path in described["paths"]:
        assert path in page
    answer = ask(port, "/search", png(pictures(1)[0])).json
    schema = described["paths"]["/search"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert set(answer) == set(schema["required"])
    assert set(answer["matches"][0]) == set(schema["properties"]["matches"]["items"]["required"])


def test_an_attack_stays_within_its_strength_and_moves_the_vector(port: int) -> None:
    picture = pictures(1, seed=9)[0]
    clean = ask(port, "/search?k=5", png(picture)).json
    before = np.array(ask(port, "/embed", png(picture)).json["vector"])
    moved = []
    for eps in (1, 8):
        found = ask(port, f"/attack?k=5&eps={eps}", png(picture)).json
        assert set(found) == {*clean, "image", "moved"}
        sent = base64.b64decode(found["image"].partition(",")[2])
        changed = np.array(Image.open(io.BytesIO(sent)).convert("RGB"))
        assert 0 < np.abs(changed.astype(int) - picture).max() <= eps
        after = np.array(ask(port, "/embed", sent).json["vector"])
        assert found["moved"] == pytest.approx(np.linalg.norm(after - before), abs=1e-4)
        again = ask(port, "/search?k=5", sent).json
        assert [m["id"] for m in again["matches"]] == [m["id"] for m in found["matches"]]
        moved.append(found["moved"])
    assert moved[1] > 2 * moved[0] > 0
    for eps in ("0", "-1", "33", "nan", "inf", "x"):
        assert ask(port, f"/attack?eps={eps}", png(picture)).status == 400


def test_several_indexes_are_asked_by_name(service: Service, tmp_path: Path) -> None:
    other = index_of(unit_vectors(30, 8))
    services = {"one": service, "two": Service(Searcher(other), small_model())}
    image = png(pictures(1)[0])
    with served(services) as port:
        assert [about["name"] for about in ask(port, "/health").json["indexes"]] == ["one", "two"]
        one, two, first = (ask(port, f"/search?k=1{more}", image).json for more in ("&index=one", "&index=two", ""))
        assert first == one
        assert two["matches"][0]["id"] in other.images.ids
        assert (two["tampered"], "not calibrated" in two["unchecked"]) == (None, True)
        assert ask(port, "/search?index=three", image).status == 404
    assert main(["serve", str(tmp_path / "a" / "x"), str(tmp_path / "b" / "x")]) == 2


def test_mounted_in_another_application_it_guards_and_counts_the_same(service: Service) -> None:
    whole = Starlette(routes=[Mount("/photos", build_app(service, token="open sesame"))])

    def asked(path: str, headers: list[tuple[bytes, bytes]]) -> tuple[int, bytes]:
        heard: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            heard.append(message)

        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": b"",
            "headers": headers,
            "root_path": "",
        }
        with ThreadPoolExecutor(1) as thread:  # a browser of other tests may hold the loop of this one
            thread.submit(asyncio.run, whole(scope, receive, send)).result()
        return heard[0]["status"], heard[1]["body"]

    bearing = [(b"authorization", b"Bearer open sesame")]
    assert [asked(f"/photos{path}", [])[0] for path in ("/", "/health", "/metrics", "/docs")] == [200, 200, 401, 401]
    assert asked("/photos/docs", bearing)[0] == 200
    status, counted = asked("/photos/metrics", bearing)
    assert status == 200
    assert b'holdfast_requests_total{path="/docs",status="200"} 1' in counted
    assert b'path="other"' not in counted


def test_images_of_the_gallery_are_shown_by_name_and_nothing_else(service: Service) -> None:
    table = picture_table(pictures(2 * COUNT))  # more than the index holds
    with served(service, gallery=GalleryImages(table, service.model.view)) as port:
        assert ask(port, "/health").json["images_shown"] is True
        reply = ask(port, "/image?id=picture-3")
        assert reply.headers["content-type"] == "image/png"
        np.testing.assert_array_equal(np.array(Image.open(io.BytesIO(reply.content))), pictures(2 * COUNT)[3])
        assert ask(port, "/search?k=1", reply.content).json["matches"][0]["id"] == "picture-3"
        for name in ("", "picture-999", "../picture-3", "/etc/passwd", "picture-3%00"):
            assert ask(port, f"/image?id={name}").status == 404
        samples = ask(port, "/samples?seed=3").json["samples"]
        assert len(set(samples)) == 12
        assert set(samples) <= set(table.ids[:COUNT])
        assert ask(port, "/samples?seed=3").json["samples"] == samples


@pytest.mark.parametrize(
    ("path", "body", "headers", "method", "status", "says"),
    [
        ("/search", b"", {}, "POST", 400, "empty"),
        ("/search", b"no image at all", {}, "POST", 400, "no image"),
        ("/search", b"\x89PNG\r\n\x1a\n" + bytes(50), {}, "POST", 400, "no image"),
        ("/search", png(pictures(1)[0])[:300], {}, "POST", 400, "no image"),
        ("/search", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", {}, "POST", 400, "no image"),
        ("/search?k=0", b"x", {}, "POST", 400, "k is"),
        ("/search?k=101", b"x", {}, "POST", 400, "k is"),
        ("/search?k=-1", b"x", {}, "POST", 400, "k is"),
        ("/search?k=1e9", b"x", {}, "POST", 400, "k is"),
        ("/search?k=%D9%A3", b"x", {}, "POST", 400, "k is"),
        ("/search?k=" + "9" * 5000, b"x", {}, "POST", 400, "k is"),
        ("/search", b"--b\r\n", {"Content-Type": "multipart/form-data; boundary=b"}, "POST", 415, "--data-binary"),
        ("/search", None, {}, "GET", 405, ""),
        ("/../../../etc/passwd", None, {}, "GET", 404, ""),
        ("/%2e%2e/%2e%2e/etc/passwd", None, {}, "GET", 404, ""),
        ("/manifest.json", None, {}, "GET", 404, ""),
        ("/embed", png(np.zeros((2, 400, 3), np.uint8)), {}, "POST", 400, "a line rather than an image"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(
    port: int, path: str, body: bytes | None, headers: dict[str, str], method: str, status: int, says: str
) -> None:
    reply = ask(port, path, body, headers, method)
    assert reply.status == status
    assert says in reply.json["error"]
    assert "\n" not in reply.json["error"]
    assert ask(port, "/search", png(pictures(1)[0])).status == 200, "it goes on"


def test_too_much_is_refused(service: Service) -> None:
    with served(service, Limits(body=2000, pixels=1200)) as port:
        assert ask(port, "/search", bytes(2001)).status == 413
        chunks = ask(port, "/search", iter([bytes(900)] * 5), {"Transfer-Encoding": "chunked"})
        assert chunks.status == 413
        assert "MB" in chunks.json["error"]
        lying = ask(port, "/search", b"abc", {"Content-Length": "9999999999999"})
        assert lying.status == 413
        reply = ask(port, "/search", png(np.zeros((40, 40, 3), np.uint8)))
        assert (reply.status, "too many" in reply.json["error"]) == (400, True)
    with served(service, Limits(bodies=1000)) as port:
        assert ask(port, "/search", bytes(1500)).status == 503
        assert ask(port, "/search", png(pictures(1)[0])).status == 200, "room is given back"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/search?k=0", {}, 400),
        ("/search?index=nobody", {}, 404),
        ("/nowhere", {}, 404),
        ("/health", {}, 405),
        ("/search", {"Content-Type": "multipart/form-data; boundary=b"}, 415),
        ("/search", {}, 413),
        ("/search", {"Transfer-Encoding": "chunked"}, 413),
        ("/search", {"Authorization": "Bearer wrong"}, 401),
    ],
)
def test_who_sends_much_hears_why_it_is_refused(
    service: Service, path: str, headers: dict[str, str], status: int
) -> None:
    let_in = {"Authorization": f"Bearer {SECRET}"}
    with served(service, Limits(body=2**20), SECRET) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for _ in range(3):  # on one connection, which is still good afterwards
            chunks = iter([bytes(2**16)] * 64) if "Transfer-Encoding" in headers else bytes(2**22)
            connection.request("POST", path, chunks, let_in | headers, encode_chunked="Transfer-Encoding" in headers)
            answer = connection.getresponse()
            assert answer.status == status
            assert answer.read()
        connection.request("POST", "/search", png(pictures(1)[0]), let_in)
        assert connection.getresponse().status == 200
        connection.close()


def test_what_a_refused_request_sends_without_end_is_not_taken_in_for_ever(service: Service) -> None:
    with served(service, Limits(reading=0.5)) as port:
        began = time.monotonic()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            ask(port, "/nowhere", itertools.repeat(bytes(1000)), {"Transfer-Encoding": "chunked"})
        assert time.monotonic() - began < 30, "half a second, on a machine that is not busy"
        assert ask(port, "/search", png(pictures(1)[0])).status == 200


def test_a_slow_body_is_not_waited_for(service: Service) -> None:
    with served(service, Limits(reading=0.3)) as port:

        def trickle() -> Iterator[bytes]:
            for _ in range(40):
                yield b"x"
                time.sleep(0.1)

        began = time.monotonic()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it left while we were still talking
            assert ask(port, "/search", trickle(), {"Transfer-Encoding": "chunked"}).status == 408
        assert time.monotonic() - began < 3
        assert ask(port, "/search", png(pictures(1)[0])).status == 200


@pytest.mark.parametrize("said", [b"", b"POST /search HTTP/1.1\r\nHost: x\r\nA: "])
def test_connections_without_a_request_make_room_for_others(service: Service, said: bytes) -> None:
    image = png(pictures(1)[0])
    with served(service, Limits(reading=0.5, connections=8)) as port, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(12)]
        for connection in silent:
            connection.sendall(said)
        deadline = time.monotonic() + 5
        while ask(port, "/search", image).status != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for connection in silent:
            connection.settimeout(5)
            assert connection.recv(100) == b"", "closed without a word"


def test_a_connection_that_was_used_is_watched_too(service: Service) -> None:
    with served(service, Limits(reading=0.4)) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            whole = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
            for rest in (0.0, 0.6):  # between requests a connection may rest for longer
                time.sleep(rest)
                connection.sendall(whole)
                answer = b""
                while not answer.endswith(b"}"):
                    answer += connection.recv(10_000)
                assert b"200 OK" in answer
            connection.sendall(whole[:20])
            began = time.monotonic()
            assert connection.recv(10_000) == b""
            assert time.monotonic() - began < 3
        endless = socket.create_connection(("127.0.0.1", port), timeout=5)
        with endless, contextlib.suppress(ConnectionResetError, BrokenPipeError):
            endless.sendall(whole[:-2] + b"A: ")
            for _ in range(40):
                endless.sendall(b"A" * 10_000)
            assert endless.recv(10_000) == b""


def test_without_the_token_nobody_gets_in(service: Service) -> None:
    with served(service, token=SECRET) as port:
        image = png(pictures(1)[0])
        for path in ("/search", "/embed", "/attack", "/image", "/samples", "/metrics", "/openapi.json", "/docs", "/no"):
            for given in (None, "Bearer wrong", SECRET, "Bearer ", f"Basic {SECRET}"):
                headers = {"Authorization": given} if given else {}
                reply = ask(port, path, image if path in ("/search", "/embed", "/attack") else None, headers)
                assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
        assert ask(port, "/health").json == {"status": "ok"}
        let_in = {"Authorization": f"Bearer {SECRET}"}
        assert ask(port, "/search", image, let_in).status == 200
        assert ask(port, "/health", headers=let_in).json["indexes"][0]["images"] == COUNT
        assert "<script>" in ask(port, "/").content.decode(), "a page that asks for the token"


class Slow(Service):
    """A service that takes its time, and remembers what came together."""

    def __init__(self, other: Service, seconds: float) -> None:
        super().__init__(other.searcher, other.model)
        self.seconds, self.batches = seconds, list[int]()

    def compute(self, asked: list) -> object:  # type: ignore[override, type-arg]
        self.batches.append(len(asked))
        time.sleep(self.seconds)
        return super().compute(asked)


def together(port: int, count: int, *more: object) -> list[tuple[int, float]]:
    """Status and seconds of searches at the same time."""
    out: list[tuple[int, float]] = []

    def one() -> None:
        began = time.monotonic()
        status = ask(port, "/search", png(pictures(1)[0])).status
        out.append((status, time.monotonic() - began))

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out


def test_requests_that_arrive_together_are_computed_together(service: Service) -> None:
    slow = Slow(service, 0.5)
    with served(slow, Limits(batch=4)) as port:
        assert [status for status, _ in together(port, 9)] == [200] * 9
    assert sum(slow.batches) == 9
    assert max(slow.batches) == 4
    assert len(slow.batches) <= 5


def test_overload_is_refused_at_once_and_over_soon(service: Service) -> None:
    with served(Slow(service, 1.0), Limits(waiting=3, batch=1)) as port:
        found = together(port, 12)
        refused = [taken for status, taken in found if status == 503]
        assert sorted(status for status, _ in found) == [200] * 3 + [503] * 9
        assert max(refused) < 0.9
        assert ask(port, "/search", png(pictures(1)[0])).status == 200


def test_an_answer_that_takes_too_long_is_given_up(service: Service) -> None:
    with served(Slow(service, 1.0), Limits(seconds=0.2)) as port:
        reply = ask(port, "/search", png(pictures(1)[0]))
        assert (reply.status, "\n" in reply.json["error"]) == (503, False)


def test_a_vector_that_cannot_be_used_is_that_images_fault_alone(service: Service) -> None:
    class Odd(Service):
        def _looked(self, pixels: list) -> object:  # type: ignore[override, type-arg]
            vectors, moves = super()._looked(pixels)
            black = [not picture.any() for picture in pixels]
            return np.where(np.array(black)[:, None], np.nan, vectors).astype(np.float32), moves

    with served(Odd(service.searcher, service.model)) as port:
        black = png(np.zeros((32, 32, 3), np.uint8))
        for path in ("/search", "/embed"):
            reply = ask(port, path, black)
            assert (reply.status, "not finite" in reply.json["error"]) == (422, True)
            assert ask(port, path, png(pictures(1)[0])).status == 200


def test_a_defect_is_not_told_to_strangers(service: Service, folder: Path) -> None:
    class Broken(Service):
        def compute(self, asked: list) -> object:  # type: ignore[override, type-arg]
            raise RuntimeError(f"something is wrong with {folder}")

    with served(Broken(service.searcher, service.model)) as port:
        reply = ask(port, "/search", png(pictures(1)[0]))
        assert reply.status == 500
        assert str(folder) not in reply.content.decode()
        assert ask(port, "/health").status == 200


def digest(folder: Path) -> str:
    """Of all files of a folder."""
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        found.update(str(file.relative_to(folder)).encode() + (file.read_bytes() if file.is_file() else b""))
    return found.hexdigest()


def test_a_server_that_is_told_to_stop_finishes_what_it_began(folder: Path) -> None:
    before = digest(folder)
    with process(folder) as (running, port):
        statuses: list[int] = []
        lost: list[str] = []
        stop = threading.Event()

        def busy() -> None:
            while not stop.is_set():
                try:
                    statuses.append(ask(port, "/search?k=3", png(pictures(1)[0])).status)
                except ConnectionRefusedError:
                    return
                except OSError as error:
                    lost.append(repr(error))
                    return

        threads = [threading.Thread(target=busy) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(statuses) < 20:
            time.sleep(0.01)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
        stop.set()
        for thread in threads:
            thread.join()
        assert running.stderr.read() == ""
    assert set(statuses) == {200}
    # What the machine had queued for a server that closes its door at that moment was never taken.
    assert all("Reset" in error or "RemoteDisconnected" in error for error in lost), lost
    assert digest(folder) == before


def test_a_killed_server_leaves_its_index_untouched(folder: Path) -> None:
    before = digest(folder)
    with process(folder) as (running, port):
        assert ask(port, "/search", png(pictures(1)[0])).status == 200
        running.kill()
        running.wait()
    assert digest(folder) == before


def test_the_exported_graph_serves_as_well(folder: Path, port: int, tmp_path: Path) -> None:
    export_onnx(small_model(), tmp_path / "small.onnx")
    image = png(pictures(1, seed=3)[0])
    with process(folder, "--model", f"onnx:{tmp_path / 'small.onnx'}", "--false-alarms", 0.02) as (_, own):
        exported, plain = ask(own, "/search?k=5", image).json, ask(port, "/search?k=5", image).json
        refused = ask(own, "/attack?eps=8", image)
    assert [m["id"] for m in exported["matches"]] == [m["id"] for m in plain["matches"]]
    assert exported["tampered"] == plain["tampered"]
    assert (refused.status, "gradients" in refused.json["error"]) == (422, True)


@pytest.mark.parametrize(
    ("words", "env", "says"),
    [
        (["--host", "0.0.0.0"], {}, "HOLDFAST_TOKEN"),
        (["--host", "203.0.113.9", "--no-token"], {}, "cannot listen"),
        (["--no-token"], {"HOLDFAST_TOKEN": "x"}, "contradicts"),
        (["--no-token"], {}, "--no-token has no effect"),
        (["--port", "99999"], {}, "cannot listen"),
        (["--far", "0.5"], {}, "FAR of 0.5"),
        (["--size", "32"], {}, "--size"),
    ],
)
def test_a_server_that_cannot_be_says_so_in_one_line(
    folder: Path, words: list[str], env: dict[str, str], says: str
) -> None:
    given = {**{k: v for k, v in os.environ.items() if k != "HOLDFAST_TOKEN"}, **env}
    command = [sys.executable, "-m", "holdfast", "serve", str(folder), "--port", "0", *words]
    found = subprocess.run(command, env=given, capture_output=True, text=True, timeout=60)
    assert found.returncode == 2
    assert says in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_port_in_use_is_said(folder: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(folder), "--port", str(port)]) == 2
    assert f"127.0.0.1:{port}" in capsys.readouterr().err
