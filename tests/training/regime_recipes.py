"""Recipe changes that make a run adversarial: regimes with BatchNorm sets, with a memory, and with turns."""

from __future__ import annotations

from typing import Any

MDPROP: dict[str, Any] = {
    "regime": {
        "name": "mdprop",
        "distributions": [
            {"name": "stax", "goal": "single-target", "noise": 0.1},
            {"name": "mtax", "goal": {"name": "multi-target", "targets": 3}},
        ],
    }
}
HM: dict[str, Any] = {
    "regime": {"name": "hm", "source": "softhard", "destination": "lga", "budget": {"eps": 0.03, "steps": 2}},
    "loss": {"name": "triplet", "miner": "softhard"},
}
TRIDE: dict[str, Any] = {
    "regime": {"name": "tride", "budget": {"eps": 0.03, "steps": 2}},
    "loss": {"name": "triplet", "miner": "softhard"},
}
