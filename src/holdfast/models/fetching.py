"""Published weights over a network that may not be there: at once, or one line on how to get them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import torch
from huggingface_hub import constants, hf_hub_url, try_to_load_from_cache

from holdfast.errors import ModelError, reason

PATIENCE = 3.0
"""Seconds in which a server must let itself be connected to; the libraries' own clients try for half a minute."""
HUB_FILES = ("model.safetensors", "pytorch_model.bin")
"""What timm looks for on the hub."""


def reachable(url: str) -> bool:
    """Whether the server of an address, or the proxy before it, can be connected to within a few seconds."""
    server = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(server.scheme) or proxies.get("all")
    if proxy and not proxy_bypass(server.netloc):
        server = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    place = server.hostname or "", server.port or (80 if server.scheme == "http" else 443)
    connected = threading.Event()

    def connect() -> None:
        with suppress(OSError), socket.create_connection(place, timeout=PATIENCE):
            connected.set()

    thread = threading.Thread(target=connect, daemon=True)  # looking up a name has no time limit of its own
    thread.start()
    thread.join(PATIENCE)
    return connected.is_set()


def hub_reachable() -> bool:
    """Whether models can be fetched from the hub."""
    return not constants.HF_HUB_OFFLINE and reachable(constants.ENDPOINT)


@contextmanager
def fetching(name: str, url: str, cached: bool) -> Iterator[None]:
    """Let a library fetch the weights it publishes, or take those it kept; fail at once where it can do neither.

    Args:
        name: of the backbone, its library included.
        url: where the weights are.
        cached: whether they were fetched before.
    """
    offline, online = constants.HF_HUB_OFFLINE, reachable(url)
    advice = f"get {url} on another computer and give {name}@FILE"
    if not online and not cached:
        raise ModelError(f"no connection to {urlsplit(url).hostname} to fetch the weights of {name}; {advice}")
    constants.HF_HUB_OFFLINE = offline or not online  # spares the hub's client its retries
    try:
        yield
    except Exception as error:  # the libraries' clients raise dozens of types
        raise ModelError(f"cannot fetch the weights of {name} ({reason(error)}); {advice}") from error
    finally:
        constants.HF_HUB_OFFLINE = offline


def timm_address(cfg: Any) -> tuple[str, bool]:
    """Where timm's weights of a `pretrained_cfg` are, and whether they were fetched before."""
    if not cfg.hf_hub_id:
        return url_address(cfg.url)
    files = (cfg.hf_hub_filename,) if cfg.hf_hub_filename else HUB_FILES
    cached = any(isinstance(try_to_load_from_cache(cfg.hf_hub_id, file), str) for file in files)
    return hf_hub_url(cfg.hf_hub_id, files[0]), cached


def url_address(url: str) -> tuple[str, bool]:
    """An address of weights, and whether torch fetched them before."""
    return url, (Path(torch.hub.get_dir()) / "checkpoints" / Path(urlsplit(url).path).name).is_file()
