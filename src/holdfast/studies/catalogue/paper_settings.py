"""What every arm of a table shares at paper scale: equal budgets, stated once."""

from __future__ import annotations

from typing import Any

PAPER: dict[str, Any] = {
    "epochs": 40,
    "evaluate_every": 40,
}
"""Over the ResNet-50 recipes on CUB. 40 epochs are 2,080 steps of 112 images."""

MOBILENET: dict[str, Any] = {
    "model.backbone": "torchvision:mobilenet_v2",
    "epochs": 20,
    "evaluate_every": 20,
}
"""Over the HM recipes on CUB: ImageNet MobileNetV2 in the place of the paper's ResNet-18, 1,040 steps."""
