"""A transformer of two layers for 32 pixels: `zoo_attention:build`."""

from __future__ import annotations

from torch import nn


def build() -> nn.Module:
    from holdfast.models.names import ensure_torchvision

    ensure_torchvision()
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(  # type: ignore[no-any-return]
        img_size=32, patch_size=8, embed_dim=96, depth=2, num_heads=4, num_classes=0, global_pool="avg"
    )
