"""Pixel gradients of a frozen network on a GPU, its layers one by one or together: how long, and how near to float32.

    python benchmarks/fused.py --backbone resnet50 --images 112 1024

Random weights, BatchNorm layers with statistics of their own. `cosine` is that of each way's pixel gradients with those
of float32 without TF32, the mean over 64 images.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import torch
from timing import seconds, write
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.attacks.frozen import frozen
from holdfast.models import Embedder, compiled
from holdfast.models.compiled import CompiledPasses

COMPARED = 64


def network(name: str, device: torch.device) -> Embedder:
    torch.manual_seed(0)
    model = Embedder(name, dim=512, size=224).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d) and layer.running_mean is not None and layer.running_var is not None:
            layer.running_mean.normal_(0, 0.05)
            layer.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(layer.weight, 0.8, 1.2)
            nn.init.normal_(layer.bias, 0, 0.05)
    return model  # type: ignore[no-any-return]


def gradient(call: Callable[[Tensor], Tensor], images: Tensor, half: bool = True) -> Tensor:
    x = images.detach().requires_grad_()
    with torch.autocast(x.device.type, torch.bfloat16, enabled=half):
        z = call(x)
    aim = torch.randn(z.shape[1], device=x.device, generator=torch.Generator(x.device).manual_seed(1))
    return torch.autograd.grad((F.normalize(z.float(), dim=1) @ aim).sum(), x)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--images", type=int, nargs="+", default=[112, 2048], help="in a pass")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    model, rows = network(arguments.backbone, device), []
    drawn = torch.rand(COMPARED, 3, 224, 224, device=device, generator=torch.Generator(device).manual_seed(0))
    with frozen(model):
        torch.backends.cudnn.allow_tf32 = False
        exact = gradient(model, drawn, half=False).flatten(1)
        torch.backends.cudnn.allow_tf32 = True
        ways: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
            "bfloat16": (model, False),
            "compiled": (CompiledPasses(model), False),
            "together": (CompiledPasses(model), device.type == "cuda"),
        }
        for name, (call, together) in ways.items():
            with patch.object(compiled, "together_on", lambda _, together=together: together):
                found = gradient(call, drawn).flatten(1)
                cosine = float(F.cosine_similarity(found, exact).mean())
                taken = {}
                for count in arguments.images:
                    images = drawn[:1].expand(count, -1, -1, -1).contiguous(memory_format=torch.channels_last)
                    taken[count] = 1e3 * seconds(lambda call=call, images=images: gradient(call, images), 8)  # type: ignore[misc]
            rows.append({"way": name, "cosine": cosine, **{f"ms_{count}": ms for count, ms in taken.items()}})
            print(
                f"{name:10} cosine {cosine:.3f}  " + "  ".join(f"{n}: {ms:.1f} ms" for n, ms in taken.items()),
                flush=True,
            )
    write(rows, arguments.json)


if __name__ == "__main__":
    main()
