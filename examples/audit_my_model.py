"""Audit a model that holdfast has never seen: any module from images in [0, 1] to vectors.

python examples/audit_my_model.py               about half a minute on two CPU cores
python examples/audit_my_model.py --fast        a few seconds
python examples/audit_my_model.py --data folder:photos --out audits/mine
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

import holdfast

SIZE = 32


class EdgeHistogram(nn.Module):
    """A model without a single trained weight: how strong edges of eight directions are, in a 4 × 4 grid."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.arange(8) * torch.pi / 8
        grid = torch.linspace(-1, 1, 5)
        waves = [(grid[:, None] * a.sin() + grid[None, :] * a.cos()).mul(torch.pi).sin() for a in angles]
        self.register_buffer("filters", torch.stack(waves)[:, None] / 5)

    def forward(self, images: Tensor) -> Tensor:
        """Vectors of 128 numbers; they need not be of unit length."""
        edges = nn.functional.conv2d(images.mean(1, keepdim=True) - 0.5, self.filters, padding=2)
        return nn.functional.adaptive_avg_pool2d(edges.square(), 4).flatten(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits", help="labelled images: digits, glyphs, folder:DIR, csv:FILE")
    parser.add_argument("--out", help="folder for audit.json; nothing is written when left out")
    parser.add_argument("--fast", action="store_true", help="attack 10 images, not 200")
    options = parser.parse_args()

    model = EdgeHistogram().eval()
    limit = 10 if options.fast else 200
    audit = holdfast.audit.run(model, options.data, size=SIZE, limit=limit, out=options.out).document

    for key, value in audit["metrics"].items():
        low_high = audit["intervals"].get(key)
        shown = f"{value:8.2f}" if isinstance(value, float) else f"{value!s:>8}"
        print(f"{key:15} {shown}" + (f"   {low_high[0]:.2f} to {low_high[1]:.2f}" if low_high else ""))
    for flag in audit["flags"]:
        print(f"{flag['level'].upper()} {flag['name']}: {flag['why']}\n    {flag['advice']}")


if __name__ == "__main__":
    main()
