"""Answer searches of an index at an address.

holdfast serve photos.index --gallery folder:photos
curl --data-binary @new.jpg "http://127.0.0.1:8000/search?k=3"
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.parsing import (
    Parser,
    above_zero,
    model_from,
    non_negative,
    positive,
    refuse_idle,
    refuse_idle_milvus,
    searcher_from,
    shared,
    verdicts,
)
from holdfast.errors import HoldfastError, one_line, plural

if TYPE_CHECKING:
    from holdfast.serve import Service

TOKEN = "HOLDFAST_TOKEN"


def arguments(sub: Parser) -> None:
    """Declare the options."""
    sub.add_argument(
        "index", nargs="+", metavar="FOLDER", help="an index that `holdfast index` made; several to compare"
    )
    sub.add_argument("--model", metavar="MODEL", help="the model that made the index, or its export: onnx:FILE")
    sub.add_argument("--gallery", metavar="DATA", help="where the indexed images are, so that the page shows them")
    shared(sub, "--size", "--trust-code", "--device", "--milvus")
    verdicts(sub)
    sub.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1: this machine only)")
    sub.add_argument("--port", type=non_negative, default=8000, help="port to listen at (8000); 0 for any that is free")
    sub.add_argument("--no-token", action="store_true", help=f"let others in without a token ({TOKEN})")
    sub.add_argument("--largest", type=above_zero, default=16.0, metavar="MB", help="the largest image, in MB (16)")
    sub.add_argument("--waiting", type=positive, default=64, metavar="N", help="requests at a time; more get 503 (64)")
    sub.add_argument("--seconds", type=above_zero, default=30.0, metavar="S", help="for one answer (30)")
    sub.add_argument("--batch", type=positive, default=32, metavar="N", help="images computed together at most (32)")


def run(options: argparse.Namespace) -> None:
    """Serve until told to stop."""
    from holdfast.evaluation import read_table

    try:
        from holdfast.serve import GalleryImages, Limits, serve
        from holdfast.serve.limits import MB
        from holdfast.serve.server import is_local
    except ImportError as error:
        raise HoldfastError(f"a server needs {error.name}: pip install 'holdfast[serve]'") from error

    token = os.environ.get(TOKEN) or None
    if options.no_token and token:
        raise HoldfastError(f"--no-token contradicts {TOKEN}, which is set; leave one out")
    if is_local(options.host):
        refuse_idle(options, "--no-token", "only this machine reaches the server")
    if token is None and not options.no_token and not is_local(options.host):
        raise HoldfastError(
            f"others reach {options.host}: set {TOKEN} to what requests must bear, or say --no-token to let all in"
        )
    services = _services(options)
    view = next(iter(services.values())).model.view
    gallery = GalleryImages(read_table(options.gallery, True)[0], view) if options.gallery else None
    limits = Limits(
        body=round(options.largest * MB), waiting=options.waiting, seconds=options.seconds, batch=options.batch
    )
    sizes = {name: len(service.searcher.index) for name, service in services.items()}

    def ready(address: str) -> None:
        about = " and ".join(f"{plural(count, 'image')} of {one_line(name)}" for name, count in sizes.items())
        facts = {"address": address, "images": sizes, "limits": dataclasses.asdict(limits)}
        words = f"{about} at {address} ({address}/docs for programs); Ctrl-C stops it"
        print(json.dumps(facts) if options.json else words, flush=True)

    serve(services, options.host, options.port, limits, token, ready, gallery)


def _services(options: argparse.Namespace) -> dict[str, Service]:
    """Each index with its model, by the name of its folder."""
    from holdfast.devices import choose_device
    from holdfast.search import model_of
    from holdfast.serve import Service

    folders = {Path(folder).resolve().name: Path(folder) for folder in options.index}
    if len(folders) < len(options.index):
        raise HoldfastError("two of these indexes have the same name; rename a folder, so that they can be told apart")
    if options.model and len(folders) > 1:
        raise HoldfastError("--model is for one index; serve indexes that hold their models, or one at a time")
    if not options.model:
        refuse_idle(options, "--size", "the model inside the index knows its own")
    refuse_idle_milvus(options, *folders.values())
    device, found = choose_device(options.device), {}
    for name, folder in folders.items():
        searcher = searcher_from(options, folder)
        own = model_from(options, device) if options.model else None
        found[name] = Service(searcher, model_of(folder, searcher.index, own, device, options.trust_code))
    return found
