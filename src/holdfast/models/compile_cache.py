"""Where torch keeps what it compiled, so that later processes, here or on a machine with the same card, find it.

Torch keeps graphs and kernels in a folder and checks them against network, versions and device before it takes one. By
itself it chooses a folder that the system empties; this names one that stays: in `HOLDFAST_CACHE`, or in the user's
cache folder, one for each kind of machine. To torch what lies there is code: carry your own folder, not a stranger's.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import time
from pathlib import Path

import torch

from holdfast.files import cache_folder
from holdfast.models.embedder import Embedder

FOLDER, GRAPHS, VARIABLE = "compiled", "torch", "TORCHINDUCTOR_CACHE_DIR"
UNUSED = 60 * 24 * 3600
"""Seconds after which the folder of another kind of machine, such as one with an older torch, goes."""


def environment(device: torch.device) -> dict[str, str]:
    """All that compiled graphs depend on beside the network."""
    about = {"torch": torch.__version__, "python": ".".join(platform.python_version_tuple()[:2])}
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


def compile_folder(device: torch.device) -> Path | None:
    """What is kept for machines like this one; None where nothing is to be kept."""
    root = cache_folder()
    if root is None:
        return None
    about = environment(device)
    words = re.sub(r"[^\w.+]+", "-", f"torch {about['torch']} {about['device']}").strip("-").lower()
    return root / FOLDER / f"{words}-{hashlib.sha256(repr(about).encode()).hexdigest()[:8]}"


def keep_compiled(device: torch.device) -> None:
    """From now on torch keeps what it compiles in our folder; one that the user named for torch stays."""
    folder = compile_folder(device)
    if folder is None or os.environ.get(VARIABLE, _torchs_own()) != _torchs_own():
        return
    try:
        (folder / GRAPHS).mkdir(parents=True, exist_ok=True, mode=0o700)
        os.utime(folder)  # used now
    except OSError:  # a folder that is only for reading: torch's own will do
        return
    os.environ[VARIABLE] = str(folder / GRAPHS)
    for other in folder.parent.iterdir():
        with contextlib.suppress(OSError):  # another process may have removed it
            if time.time() - other.stat().st_mtime > UNUSED:
                shutil.rmtree(other)


def _torchs_own() -> str:
    """The folder that torch chooses, and names in its variable as soon as it compiles."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return default_cache_dir()


def _triton() -> str:
    try:
        import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return "none"
    return str(triton.__version__)
