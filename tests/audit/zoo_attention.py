"""A transformer of two layers behind two convolutions, for 32 pixels: `zoo_attention:build`."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


def build() -> nn.Module:
    from holdfast.models.names import ensure_torchvision

    ensure_torchvision()
    from timm.models.vision_transformer import VisionTransformer

    class Attention(VisionTransformer):  # type: ignore[misc]
        """Its tokens are not pooled to one: glyphs differ by layout."""

        def forward(self, maps: Tensor) -> Tensor:
            tokens = self.forward_features(maps)
            side = int(tokens.shape[1] ** 0.5)
            return F.adaptive_avg_pool2d(tokens.mT.reshape(len(tokens), -1, side, side), 2).flatten(1)

    stem: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32)):
        stem += [nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU()]
    sizes = {"img_size": 8, "patch_size": 2, "in_chans": 32, "embed_dim": 64, "depth": 2, "num_heads": 4}
    kept = {"num_classes": 0, "global_pool": "", "class_token": False, "init_values": 0.1}
    return nn.Sequential(*stem, Attention(**sizes, **kept))
