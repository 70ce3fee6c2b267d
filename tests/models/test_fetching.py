from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import save_file

from holdfast.errors import ModelError
from holdfast.models import Embedder, load_model
from holdfast.models import fetching as module
from holdfast.models.fetching import reachable
from holdfast.models.names import ensure_torchvision


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A computer without a network; its caches, which are empty."""

    def refused(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(module.socket, "create_connection", refused)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "torch"))
    return tmp_path


def keep(cache: Path, repository: str, *, package: Embedder | None = None) -> Path:
    """The folder in which the hub's client keeps a repository."""
    place = cache / "hub" / f"models--{repository.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    folder = place / "snapshots" / ("0" * 40)
    folder.mkdir(parents=True)
    if package:
        package.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("spec", "advice"),
    [
        ("someone/model", "hf download someone/model --local-dir DIR"),
        (
            "timm:mobilenetv3_small_050",
            "model.safetensors on another computer and give timm:mobilenetv3_small_050@FILE",
        ),
        ("torchvision:mobilenet_v2", ".pth on another computer and give torchvision:mobilenet_v2@FILE"),
    ],
)
def test_without_a_network_a_name_fails_at_once(spec: str, advice: str, offline: Path) -> None:
    before = time.monotonic()
    with pytest.raises(ModelError, match="no connection to") as caught:
        load_model(spec)
    assert advice in str(caught.value)
    assert time.monotonic() - before < 25, "the hub's client tries for half a minute"


def test_what_was_fetched_before_needs_no_network(offline: Path) -> None:
    torch.manual_seed(0)
    keep(offline, "someone/model", package=(own := Embedder("conv-tiny", dim=4)))
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(load_model("someone/model")(images), own.eval()(images))
    ensure_torchvision()
    import timm

    theirs = timm.create_model("mobilenetv3_small_050")
    save_file(theirs.state_dict(), keep(offline, "timm/mobilenetv3_small_050.lamb_in1k") / "model.safetensors")
    found = load_model("timm:mobilenetv3_small_050").backbone.state_dict()
    assert torch.equal(found["conv_head.weight"], theirs.state_dict()["conv_head.weight"])
    assert not constants.HF_HUB_OFFLINE, "it is as it was"


def test_a_server_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()

    def waits(*_: object, **__: object) -> None:
        held.wait(20)
        raise OSError("too late")

    monkeypatch.setattr(module.socket, "create_connection", waits)
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    assert not reachable("https://example.org/weights.pth")
    held.set()


@pytest.mark.parametrize(
    ("proxy", "place"),
    [
        ("", ("example.org", 443)),
        ("http://proxy.example:3128", ("proxy.example", 3128)),
        ("proxy.example:8080", ("proxy.example", 8080)),
    ],
)
def test_a_proxy_stands_for_the_servers_behind_it(
    proxy: str, place: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def connect(address: tuple[str, int], timeout: float) -> threading.Lock:
        asked.append(address)
        return threading.Lock()

    monkeypatch.setattr(module, "getproxies", lambda: {"https": proxy} if proxy else {})
    monkeypatch.setattr(module.socket, "create_connection", connect)
    assert reachable("https://example.org/weights.pth")
    assert asked == [place]
