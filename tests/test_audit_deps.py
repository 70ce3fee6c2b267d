"""`make audit-deps`: a weakness fails, what could not be looked up is said, and no server can stop a build."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PINNED = (ROOT / "constraints.txt").read_text("utf-8").count("==")


@pytest.mark.skipif(os.name != "posix", reason="a shell script")
@pytest.mark.parametrize(
    ("answer", "code", "says", "fails"),
    [
        ("echo No known vulnerabilities found", 0, f"{PINNED} of {PINNED} pinned dependencies looked up", False),
        ("echo Found 1 known vulnerability in 1 package", 1, "Found 1 known vulnerability", True),
        ("echo Found 2 known vulnerabilities in 2 packages", 1, "Found 2 known vulnerabilities", True),
        ("echo ConnectionError", 1, "not audited: the database cannot be reached", False),
        ("echo torch could not be audited", 0, f"{PINNED - 1} of {PINNED} pinned", False),
        ("sed 's/$/ could not be audited/' constraints.txt", 0, "not audited: the database that was reached", False),
    ],
)
def test_what_comes_of_an_answer(answer: str, code: int, says: str, fails: bool, tmp_path: Path) -> None:
    stand_in = tmp_path / "python"
    stand_in.write_text(f'#!/bin/sh\ncase "$*" in *--version*) exit 0;; esac\n{answer}\nexit {code}\n')
    stand_in.chmod(0o755)
    command = ["sh", "tools/audit_deps.sh", str(stand_in)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert says in done.stdout
    assert (done.returncode != 0) == fails
