"""Searches per second of `holdfast serve` under load, beside a bare loop of onnxruntime and FAISS.

    python benchmarks/serving.py --vectors 100000 --clients 1 8 64 --seconds 10 --json serving.json

Everything runs on this machine, over the loopback address: the clients take their share of the cores, too. The index
holds the glyphs that come with holdfast, as the model that comes with it embeds them, and random vectors up to the
number asked for. The bare loop decodes the same files, embeds them one by one with the exported graph and asks FAISS,
with as many threads as suit it best. It neither checks queries for tampering, which takes three more passes each, nor
speaks HTTP. `--soak MINUTES` keeps the last number of clients busy and says how the server's memory grew; `--overload`
asks with more clients than may wait.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from PIL import Image
from timing import processor, write

from holdfast.data import ImageTable
from holdfast.evaluation import read_table
from holdfast.models import load_model
from holdfast.models.export import export_onnx
from holdfast.search import IndexedImages, MemoryIndex, create_index, read_index, read_manifest, write_index

MODEL = "holdfast/pocket-robust"
K = 10


def build(folder: Path, vectors: int, seed: int = 0) -> tuple[Path, Path, list[bytes]]:
    """An index of so many vectors, the exported graph of its model, and queries as files."""
    model = load_model(MODEL)
    table: ImageTable = read_table("glyphs", False)[0].split("test")
    index, _ = create_index(folder / "index", model, table, reference="pocket-robust")
    missing = max(0, vectors - len(index))
    draw = np.random.default_rng(seed)
    noise = draw.standard_normal((missing, index.dim)).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    prints = draw.integers(0, 256, (missing, 16), dtype=np.uint8)
    manifest = read_manifest(folder / "index")
    unknown = [""] * missing
    grown = index.extended(noise, IndexedImages([f"random/{i}" for i in range(missing)], unknown, unknown, prints))
    write_index(folder / "index", dataclasses.replace(grown, kind="flat"), replaces=manifest)
    export_onnx(model, folder / "model.onnx")
    queries = []
    for row in range(0, len(table), max(1, len(table) // 256)):
        content = io.BytesIO()
        Image.fromarray(table.source.image(int(table.positions[row]))).save(content, "png")
        queries.append(content.getvalue())
    return folder / "index", folder / "model.onnx", queries


def bare_loop(index: Path, graph: Path, queries: list[bytes], seconds: float) -> dict[str, float]:
    """Decode, embed and search one by one: with one thread or with all, whichever is faster."""
    stored = read_index(index)
    assert isinstance(stored, MemoryIndex)  # as `build` made it
    found = faiss.IndexFlatL2(stored.dim)
    found.add(stored.vectors)
    tries = [_bare_loop(found, graph, queries, seconds / 2, threads) for threads in (1, len(os.sched_getaffinity(0)))]
    return max(tries, key=lambda one: one["per second"])


def _bare_loop(
    vectors: faiss.IndexFlatL2, graph: Path, queries: list[bytes], seconds: float, threads: int
) -> dict[str, float]:
    import onnxruntime

    faiss.omp_set_num_threads(threads)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")  # or it would slow FAISS down
    session = onnxruntime.InferenceSession(str(graph), settings)
    (name,) = (given.name for given in session.get_inputs())
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        with Image.open(io.BytesIO(queries[len(taken) % len(queries)])) as image:
            pixels = np.asarray(image.convert("RGB"), np.float32) / 255
        (vector,) = session.run(None, {name: pixels.transpose(2, 0, 1)[None]})
        vectors.search(vector, K)
        taken.append(time.perf_counter() - began)
    return {"threads": threads, **told(taken, seconds)}


def told(taken: list[float], seconds: float) -> dict[str, float]:
    """Searches per second, and how long the middle and the slowest hundredth took."""
    middle, slow = np.quantile(taken, [0.5, 0.99]) * 1000
    return {"per second": round(len(taken) / seconds, 1), "p50 ms": round(middle, 2), "p99 ms": round(slow, 2)}


class Server:
    """`holdfast serve` in a process of its own."""

    def __init__(self, index: Path, *options: str) -> None:
        command = [sys.executable, "-m", "holdfast", "serve", str(index), "--port", "0", "--json", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(json.loads(self.process.stdout.readline())["address"].rpartition(":")[2])

    def memory(self) -> float:
        """Megabytes that it holds."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    def stop(self) -> int:
        """Ask it to stop; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


async def client(port: int, queries: list[bytes], end: float, first: int, out: list[tuple[int, float]]) -> None:
    """Ask one search after another on one connection: status and seconds of each."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = first
    while (began := time.perf_counter()) < end:
        body = queries[number % len(queries)]
        head = f"POST /search?k={K} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(answer.partition(b"content-length: ")[2].split(b"\r\n")[0]))
        status = int(answer.split()[1])
        out.append((status, time.perf_counter() - began))
        number += 1
        if status == 503:
            await asyncio.sleep(0.05)
    writer.close()


def load(port: int, queries: list[bytes], clients: int, seconds: float) -> dict[str, Any]:
    """So many clients at once, for some seconds."""
    out: list[tuple[int, float]] = []

    async def everybody() -> None:
        end = time.perf_counter() + seconds
        await asyncio.gather(*(client(port, queries, end, 7 * number, out) for number in range(clients)))

    asyncio.run(everybody())
    fine = [taken for status, taken in out if status == 200]
    refused = [taken for status, taken in out if status == 503]
    found: dict[str, Any] = {"clients": clients, **told(fine, seconds)}
    if refused:
        found |= {"refused": len(refused), "refused p99 ms": round(float(np.quantile(refused, 0.99)) * 1000, 1)}
    assert len(fine) + len(refused) == len(out), "an answer was neither 200 nor 503"
    return found


def soak(server: Server, queries: list[bytes], clients: int, minutes: float) -> list[float]:
    """The server's memory after each twentieth of some minutes at full load."""
    held = []
    for _ in range(20):
        load(server.port, queries, clients, minutes * 3)
        held.append(round(server.memory(), 1))
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--overload", action="store_true")
    parser.add_argument("--onnx", action="store_true", help="let the server run the exported graph")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as made:
        index, graph, queries = build(Path(made), options.vectors)
        server = Server(index, *(("--model", f"onnx:{graph}") if options.onnx else ()))
        rows.append({"what": "bare loop", **bare_loop(index, graph, queries, options.seconds)})
        load(server.port, queries, 8, 1.0)
        for clients in options.clients:
            rows.append({"what": "server", **load(server.port, queries, clients, options.seconds)})
            rows.append({"what": "bare loop", **bare_loop(index, graph, queries, options.seconds)})
        if options.soak:
            rows.append({"what": "memory, MB", "held": soak(server, queries, options.clients[-1], options.soak)})
        if options.overload:
            rows.append({"what": "overload", **load(server.port, queries, 200, options.seconds)})
            rows.append({"what": "after it", **load(server.port, queries, 8, options.seconds)})
        rows.append({"what": "exit status", "status": server.stop()})
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    write([{"machine": processor(len(os.sched_getaffinity(0))), "vectors": options.vectors}, *rows], options.json)


if __name__ == "__main__":
    main()
