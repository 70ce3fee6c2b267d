"""What `torch.compile` made of a network, kept in files for later processes, here or on a machine with the same card.

A file is one line of JSON, which says what made it, and torch's own artefacts. It lies in `HOLDFAST_CACHE`, or in the
user's cache folder. Each process that compiles something new writes a file of its own, so that none waits for another;
files that a newer one covers go, and so do those that were not used for longest once all together are too large. To
torch the artefacts are code: carry your own files, not a stranger's.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from holdfast import console
from holdfast.errors import reason
from holdfast.files import cache_folder, write_atomic
from holdfast.models.embedder import Embedder
from holdfast.versions import versions

FOLDER, SUFFIX = "compiled", ".graphs"
LIMIT = 2 * 2**30
"""Bytes of all files together."""
HEADER = 2**20
"""Bytes that the line of JSON may have."""
AFTER = (4, 16, 128, 1024)
"""Calls after which new graphs are kept: those of the first steps, after which a captured one makes no more calls, and
of what a regime or audit does later."""


def environment(device: torch.device) -> dict[str, str]:
    """All that artefacts depend on beside the network."""
    found = versions()
    about = {name: found[name] for name in ("holdfast", "torch")}
    about["python"] = ".".join(platform.python_version_tuple()[:2])
    about["machine"] = f"{platform.system()} {platform.machine()}"
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        about["device"] = f"{torch.cuda.get_device_name(device)} ({major}.{minor})"
        about["cuda"] = str(torch.version.cuda)
        about["triton"] = _triton()
    else:
        about["device"] = f"{device.type} ({torch.backends.cpu.get_cpu_capability()})"
    return about


def network_key(model: Embedder) -> str:
    """A name for networks of one build: layers and their settings, whatever their weights and BatchNorm sets are."""
    parts = [f"{name} {part}" for name, part in model.named_children() if name != "bank"]
    settings = [str(setting) for setting in (model.size, model.normalize, model.max_pooled)]
    return hashlib.sha256("\n".join([*settings, *parts]).encode()).hexdigest()[:16]


@functools.cache
def _opened(root: Path | None, network: str, device: torch.device) -> CompileCache:
    cache = CompileCache(root, network, device)
    cache.load()
    atexit.register(cache.save)
    return cache


def open_cache(model: Embedder, device: torch.device) -> CompileCache:
    """The artefacts of a model's network on a device, loaded once in a process and written at its end at the latest."""
    known = hasattr(torch.compiler, "save_cache_artifacts")  # torch 2.6
    return _opened(cache_folder() if known else None, network_key(model), device)


class CompileCache:
    """The artefacts of one network on one device.

    Args:
        root: the folder of all caches; nothing is kept without one.
        network: its key.
        device: that it runs on.
    """

    def __init__(self, root: Path | None, network: str, device: torch.device) -> None:
        self._folder = root / FOLDER if root else None
        self._network = network
        self._environment = environment(device)
        self._kept: set[str] = set()
        self._calls = 0

    @property
    def warm(self) -> bool:
        """Whether this network was compiled before."""
        return bool(self._kept)

    def load(self) -> None:
        """Give torch what fitting files hold. A damaged file, or one made elsewhere, is skipped with one line."""
        for file, about in self._files(say=True):
            try:
                content = _payload(file, about)
                if torch.compiler.load_cache_artifacts(content) is None:
                    raise ValueError("torch cannot read it")
            except Exception as error:  # torch raises many types; each means that it has to compile
                console.say(f"compile cache: {file.name} is skipped: {reason(error)}")
                continue
            self._kept.update(about["artifacts"])
            with contextlib.suppress(OSError):  # a folder that is only for reading
                os.utime(file)  # used now

    def keep(self) -> None:
        """Take note of one call; from time to time, write what is new."""
        self._calls += 1
        if self._calls in AFTER:
            self.save()

    def save(self) -> None:
        """Write what was compiled in this process, if some of it is not in a file yet."""
        made = torch.compiler.save_cache_artifacts() if self._folder else None
        if made is None:
            return
        content, info = made
        names = {f"{kind}/{key}" for kind, keys in info.artifacts.items() for key in keys}
        if names <= self._kept:
            return
        try:
            self._write(content, names)
            self._kept |= names
        except OSError as error:
            console.say(f"compile cache: nothing is kept in {self._folder}: {error.strerror or error}")
            self._folder = None

    def _write(self, content: bytes, names: set[str]) -> None:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        digest = hashlib.sha256(content).hexdigest()
        about = {
            "environment": self._environment,
            "network": self._network,
            "sha256": digest,
            "artifacts": sorted(names),
        }
        file = self._folder / f"{self._network}-{digest[:12]}-{os.getpid()}{SUFFIX}"
        write_atomic(file, json.dumps(about).encode() + b"\n" + content)
        for other, theirs in self._files():
            # Of two that cover each other one stays, whichever process looks.
            if (len(theirs["artifacts"]), other.name) < (len(names), file.name) and names.issuperset(
                theirs["artifacts"]
            ):
                other.unlink(missing_ok=True)
        _bound(self._folder)

    def _files(self, say: bool = False) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The files of this network that were made in an environment like this one, and their first lines."""
        foreign = []
        for file in sorted(self._folder.glob(f"{self._network}-*{SUFFIX}")) if self._folder else ():
            about = _about(file)
            if about is None:
                if say:
                    console.say(f"compile cache: {file.name} is skipped: it is damaged")
            elif about["environment"] == self._environment and about["network"] == self._network:
                yield file, about
            else:
                foreign.append(about["environment"])
        if foreign and say:
            names = [name for name, value in self._environment.items() if foreign[0].get(name) != value]
            made = ", ".join(f"{name} {foreign[0].get(name)}" for name in names) or "another network"
            console.say(f"compile cache: {len(foreign)} of its files were made elsewhere ({made}) and are skipped")


def _about(file: Path) -> dict[str, Any] | None:
    """The first line of a file, if it is one of ours."""
    try:
        with file.open("rb") as handle:
            about = json.loads(handle.readline(HEADER))
        whole = isinstance(about["environment"], dict) and isinstance(about["network"], str)
        names = about["artifacts"]
        good = whole and isinstance(names, list) and all(isinstance(name, str) for name in names)
        return about if good and isinstance(about["sha256"], str) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _payload(file: Path, about: dict[str, Any]) -> bytes:
    """The artefacts of a file; refuses what is not what was written."""
    with file.open("rb") as handle:
        handle.readline(HEADER)
        content = handle.read()
    if hashlib.sha256(content).hexdigest() != about["sha256"]:
        raise ValueError("it is damaged")
    return content


def _bound(folder: Path) -> None:
    """Remove the files that were not used for longest, until the others are within the limit."""
    found = []
    for file in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):  # another process may have removed it
            about = file.stat()
            found.append((about.st_mtime, about.st_size, file))
    total = 0
    for _, size, file in sorted(found, reverse=True):
        total += size
        if total > LIMIT:
            file.unlink(missing_ok=True)


def _triton() -> str:
    try:
        import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return "none"
    return str(triton.__version__)
