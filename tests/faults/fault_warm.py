"""Imported by the process that children are forked from: works once, so that all it needs lazily is loaded in them."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

from fault_runs import small, training

import holdfast.search  # noqa: F401
from holdfast.cli import main

with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
    main(training(small(epochs=1), Path(place), "--json"))
    main(["audit", f"{place}/run", "--data", "glyphs", "--limit", "2", "--json"])
