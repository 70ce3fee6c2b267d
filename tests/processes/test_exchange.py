"""Bytes that two processes tell each other, nothing at all among them."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from holdfast.processes import joined
from meeting import free_port, meet, side_by_side

WORLD = 2
TELLS = [(b"", b"two"), (b"one", b""), (b"", b""), (b"a", b"longer")]
"""What each of the two has, time after time."""


def tell(rank: int, port: int, folder: str) -> None:
    """One of them: file what it hears."""
    meet(rank, WORLD, port)
    with joined(torch.device("cpu")) as processes:
        heard = [processes.exchange(both[rank]) for both in TELLS]
        sent = [processes.send(both[rank]) for both in TELLS]
    Path(folder, f"{rank}.json").write_text(json.dumps([[[x.decode() for x in h] for h in heard], [*map(str, sent)]]))


def test_everybody_hears_what_each_has_also_nothing(tmp_path: Path) -> None:
    side_by_side(tell, (free_port(), str(tmp_path)), WORLD)
    for rank in range(WORLD):
        heard, sent = json.loads((tmp_path / f"{rank}.json").read_text())
        assert heard == [[one.decode(), two.decode()] for one, two in TELLS]
        assert sent == [str(one) for one, _ in TELLS]
