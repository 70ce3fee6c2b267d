from __future__ import annotations

import socket

import pytest
import torch
import torch.distributed as dist

from holdfast.errors import HoldfastError
from holdfast.processes import joined
from meeting import told

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")


def test_a_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for name, value in told(0, 2, port).items():
            monkeypatch.setenv(name, value)
        with (
            pytest.raises(HoldfastError, match=f"port {port} .* is in use.*--master_port"),
            joined(torch.device("cpu")),
        ):
            pass
