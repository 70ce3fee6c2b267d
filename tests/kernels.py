"""Kernels of a GPU, run by Triton's interpreter where there is none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def interpret(code: str) -> None:
    """Run code in a process whose kernels are interpreted; skip the test without triton."""
    pytest.importorskip("triton")
    interpreted = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=interpreted, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
