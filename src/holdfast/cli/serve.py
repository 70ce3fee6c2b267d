"""Answer searches of an index at an address.

holdfast serve photos.index
curl --data-binary @new.jpg http://127.0.0.1:8000/search?k=3
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from pathlib import Path

from holdfast.cli.parsing import (
    Parser,
    above_zero,
    model_from,
    non_negative,
    positive,
    refuse_idle,
    searcher_from,
    shared,
    verdicts,
)
from holdfast.errors import HoldfastError, one_line, plural

TOKEN = "HOLDFAST_TOKEN"


def arguments(sub: Parser) -> None:
    """Declare the options."""
    sub.add_argument("index", metavar="FOLDER", help="an index that `holdfast index` made")
    sub.add_argument("--model", metavar="MODEL", help="the model that made the index, or its export: onnx:FILE")
    shared(sub, "--size", "--trust-code", "--device")
    verdicts(sub)
    sub.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1: this machine only)")
    sub.add_argument("--port", type=non_negative, default=8000, help="port to listen at (8000); 0 for any that is free")
    sub.add_argument("--no-token", action="store_true", help=f"let others in without a token ({TOKEN})")
    sub.add_argument("--largest", type=above_zero, default=16.0, metavar="MB", help="bytes of an image (16)")
    sub.add_argument("--waiting", type=positive, default=64, metavar="N", help="requests at a time; more get 503 (64)")
    sub.add_argument("--seconds", type=above_zero, default=30.0, metavar="S", help="for one answer (30)")
    sub.add_argument("--batch", type=positive, default=32, metavar="N", help="images computed together at most (32)")


def run(options: argparse.Namespace) -> None:
    """Serve until told to stop."""
    from holdfast.devices import choose_device
    from holdfast.search import model_of

    try:
        from holdfast.serve import Limits, Service, serve
        from holdfast.serve.limits import MB
        from holdfast.serve.server import is_local
    except ImportError as error:
        raise HoldfastError(f"a server needs {error.name}: pip install 'holdfast[serve]'") from error

    token = os.environ.get(TOKEN) or None
    if options.no_token and token:
        raise HoldfastError(f"--no-token contradicts {TOKEN}, which is set; leave one out")
    if token is None and not options.no_token and not is_local(options.host):
        raise HoldfastError(
            f"others reach {options.host}: set {TOKEN} to what requests must bear, or say --no-token to let all in"
        )
    if not options.model:
        refuse_idle(options, "--size", "the model inside the index knows its own")
    folder, device = Path(options.index), choose_device(options.device)
    searcher = searcher_from(options, folder)
    own = model_from(options, device) if options.model else None
    model = model_of(folder, searcher.index, own, device, options.trust_code)
    limits = Limits(
        body=round(options.largest * MB), waiting=options.waiting, seconds=options.seconds, batch=options.batch
    )
    about = f"{plural(len(searcher.index), 'image')} of {one_line(folder.name)}"

    def ready(address: str) -> None:
        facts = {"address": address, "images": len(searcher.index), "limits": dataclasses.asdict(limits)}
        words = f"{about} at {address} (what it takes: {address}/docs); Ctrl-C stops it"
        print(json.dumps(facts) if options.json else words, flush=True)

    serve(Service(searcher, model), options.host, options.port, limits, token, ready)
