"""One process at a time: locks of the living hold, those of the dead do not."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import locks
from holdfast.locks import InUse, locked


def test_a_second_holder_is_refused_by_the_number_of_the_first(tmp_path: Path) -> None:
    file = tmp_path / ".lock"
    with locked(file, "the run"):
        line = f"the run is in use by process {os.getpid()}; wait for it, or stop it"
        with pytest.raises(InUse, match=line), locked(file, "the run"):
            pass
        assert file.exists(), "the refused one must not remove it"
    assert not file.exists()
    with locked(file, "the run"):
        assert file.read_text().split()[0] == str(os.getpid())


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    file = tmp_path / ".lock"
    file.write_text("1 elsewhere\n")  # a living number, on another machine: the system's lock is what counts
    with locked(file, "the run"):
        assert file.read_text().split()[0] == str(os.getpid())


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    file = tmp_path / ".lock"
    holds = (
        "import os, sys; from pathlib import Path; from holdfast.locks import locked\n"
        "with locked(Path(sys.argv[1]), 'it'): os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", holds, str(file)], check=True)
    assert file.exists()
    with locked(file, "the run"):
        pass


@pytest.mark.parametrize(
    ("holder", "refused"),
    [
        ("", False),
        (f"{os.getpid()} {locks.socket.gethostname()}", True),
        (f"{2**22 + 1} {locks.socket.gethostname()}", False),  # beyond the largest number of a process
        ("7 elsewhere", True),
    ],
    ids=["new", "alive", "dead", "another machine"],
)
def test_without_locks_of_the_system_the_written_process_decides(
    holder: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", unsupported)
    file = tmp_path / ".lock"
    file.write_text(holder)
    if refused:
        with pytest.raises(InUse, match=r"or delete .*\.lock if it is gone"), locked(file, "the run"):
            pass
    else:
        with locked(file, "the run"):
            pass


def test_a_lock_is_not_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / ".lock").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / ".lock", "the run"):
        pass
    assert target.read_text() == "mine"
