"""Train in a plain PyTorch loop with holdfast's sampler, miner and loss, then attack the model in one call.

python examples/own_loop.py             about a quarter of a minute on two CPU cores
python examples/own_loop.py --fast      a few seconds; the figures mean little
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import holdfast
from holdfast.data import ClassBalancedBatchSampler, ImageStore, load
from holdfast.view import View


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="few characters, one epoch")
    options = parser.parse_args()
    torch.manual_seed(0)
    table = load({"name": "glyphs", "characters": 60 if options.fast else 200, "per_class": 8})
    (images, labels), (test_images, test_labels) = (read(table.split(split)) for split in ("train", "test"))
    model = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 64)),
    )
    sampler = ClassBalancedBatchSampler(labels, classes=14, per_class=4)
    loader = DataLoader(TensorDataset(images, labels), batch_sampler=sampler)
    loss = holdfast.losses.build("multi-similarity", miner="multi-similarity")
    optimizer = torch.optim.AdamW([*model.parameters(), *loss.parameters()], lr=5e-4)
    for epoch in range(1 if options.fast else 12):
        for batch, classes in loader:
            optimizer.zero_grad()
            value = loss(F.normalize(model(batch), dim=1), classes)
            value.backward()
            optimizer.step()
        with torch.no_grad():
            found = holdfast.metrics.retrieval(F.normalize(model.eval()(test_images)), test_labels)
        model.train()
        print(f"epoch {epoch + 1}: loss {value.item():.3f}, R@1 on classes never seen {found['R@1']:.1f}")

    query = torch.arange(len(test_labels)) % 8 == 0  # one image of each class
    gallery = holdfast.gallery(model, test_images[~query], test_labels[~query])
    print(holdfast.attack(model, test_images[query], test_labels[query], "gtm", eps=8 / 255, gallery=gallery))


def read(table: holdfast.data.ImageTable) -> tuple[torch.Tensor, torch.Tensor]:
    images = ImageStore(table, View(32), "cpu").inputs(torch.arange(len(table)))
    return images, torch.tensor(table.labels)


if __name__ == "__main__":
    main()
