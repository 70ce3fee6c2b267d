"""Recipe changes that make a run adversarial: one regime with BatchNorm sets, one with a memory."""

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
