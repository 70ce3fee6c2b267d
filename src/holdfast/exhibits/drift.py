"""How far the BatchNorm sets of MDProp are from the clean one."""

from __future__ import annotations

import math

from holdfast.exhibits.missing import Missing
from holdfast.exhibits.scene import Scene


def drift(scene: Scene) -> dict[str, dict[str, dict[str, float]]]:
    """Distribution → layer → tensor → root mean square gap to the clean set."""
    found = scene.embedder.bank.drift(scene.embedder.backbone)
    if not found:
        raise Missing("the model has no BatchNorm sets beside its own; only regimes such as mdprop train them")
    if not all(math.isfinite(gap) for layers in found.values() for gaps in layers.values() for gap in gaps.values()):
        raise Missing("the BatchNorm sets hold NaN or infinite numbers")
    return found
