"""The peak memory of a program in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

PEAK = """
from pathlib import Path
def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
"""
"""Python code that defines `peak()`, in MiB. Not `ru_maxrss`, which a process inherits from the one that started it."""

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
