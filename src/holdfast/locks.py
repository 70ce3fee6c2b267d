"""One process at a time in a folder: a second one is refused and told who is there."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError

fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None
"""None on Windows."""

UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
"""What a file system without locks answers."""


class InUse(HoldfastError):
    """Another process works in the folder."""


@contextmanager
def locked(file: Path, what: str) -> Iterator[None]:
    """Hold a lock file while the block runs; a dead process's is taken over.

    The system's own lock (`flock`, which Linux carries to other machines over NFS) decides, and ends with the process
    however that dies. The process and machine written into the file are for the message; they decide only where
    the file system has no locks.

    Args:
        file: the lock; its folder must exist. Removed at the end.
        what: is refused, for the message.
    """
    descriptor = _take(file, what)
    try:
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
        yield
    finally:
        with contextlib.suppress(OSError):  # a folder that turned read-only; the next process takes the file over
            file.unlink()
        os.close(descriptor)


def _take(file: Path, what: str) -> int:
    """A descriptor that holds the lock of the file which is there now."""
    while True:
        # Not through a link: a stranger's folder may hold one of that name.
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            _refuse_others(descriptor, file, what)
            if os.name != "posix" or _same_file(descriptor, file):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder removed it between our opening and locking it


def _refuse_others(descriptor: int, file: Path, what: str) -> None:
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                number, host = _holder(descriptor)
                raise InUse(f"{what} is in use by {_named(number, host)}; wait for it, or stop it") from error
    number, host = _holder(descriptor)
    if number is None or (host == socket.gethostname() and not _alive(number)):
        return
    raise InUse(f"{what} is in use by {_named(number, host)}; wait for it, or delete {file} if it is gone")


def _holder(descriptor: int) -> tuple[int | None, str]:
    """Process and machine that the file names; none where it has not been written yet."""
    number, _, host = os.pread(descriptor, 300, 0).decode("utf-8", "replace").partition(" ")
    return (int(number), host.strip()) if number.isdecimal() else (None, "")


def _named(number: int | None, host: str) -> str:
    if number is None:
        return "another process"
    return f"process {number}" if host == socket.gethostname() else f"process {number} on {host}"


def _alive(number: int) -> bool:
    import psutil  # type: ignore[import-untyped]  # comes with accelerate

    return bool(psutil.pid_exists(number))


def _same_file(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
